// SPDX-License-Identifier: MIT
// Y = X W^T with W dense or 2:4 sparse on the tensor cores. Both kernels are one: operands lie in memory in
// the order the instructions want them, bulk copies bring them through four stages of shared memory, and only
// the instruction and the bytes of W differ. W keeps two of every four neighbours; the dense kernel
// multiplies the zeros too.
//
// FLOPs: 2 n m k as if dense. Bytes of W: 2 m k dense; m k + m k / 8 sparse (values, and two bits for each
// kept one).
#include <algorithm>

#include "gpu/launch.cuh"
#include "gpu/ptx.cuh"
#include "lab/array_trial.h"
#include "lab/experiments/device_scratch.h"

namespace cheetah::lab {
namespace {

constexpr int kOutputs = 16384, kInputs = 4096;  // W: rows and columns
constexpr int64_t kWeights = int64_t{kOutputs} * kInputs;
constexpr int kCopies = 4;  // of W, used in turns: one alone would partly stay in L2
constexpr int kRowsPerBlock = 128, kStep = 64, kStages = 4, kThreads = 256;
constexpr int kFragment = 512;  // bytes of a 16 x 16 or 32 x 8 operand of a warp: 16 per lane

// Small whole numbers, exact in BF16 and in every sum; a pure function so that the oracle needs no dense W.
__device__ inline uint32_t mixed(uint32_t seed, uint32_t index) {
  uint32_t v = (index + seed) * 0x9E3779B1u;
  v = (v ^ (v >> 15)) * 0x85EBCA77u;
  return v ^ (v >> 13);
}
__device__ inline float small_number(uint32_t bits) { return static_cast<float>(bits % 7) - 3.f; }
// Which two of four are kept: low two bits the first, next two the second, first < second.
__device__ inline uint32_t kept_pair(uint32_t bits) {
  constexpr uint32_t kPairs[6] = {0x4, 0x8, 0xC, 0x9, 0xD, 0xE};
  return kPairs[bits % 6];
}
struct Group {  // four neighbours of a row of W
  float values[4];
  uint32_t pair;
};
__device__ inline Group group_at(uint32_t seed, int row, int group) {
  const uint32_t index = static_cast<uint32_t>(row) * (kInputs / 4) + group;
  Group g{{}, kept_pair(mixed(seed, index) >> 8)};
  g.values[g.pair & 3] = small_number(mixed(seed ^ 0x55555555u, index * 2));
  g.values[g.pair >> 2] = small_number(mixed(seed ^ 0x55555555u, index * 2 + 1));
  return g;
}
__device__ inline uint32_t bf16_pair(float low, float high) {  // exact numbers: the upper halves
  return (__float_as_uint(low) >> 16) | (__float_as_uint(high) & 0xFFFF0000u);
}

// W in order [row block of 128][k of 32][16 rows]: dense two fragments of 16 x 16, sparse one, and 16
// metadata words.
__global__ void pack_weights(const uint32_t* seed, uint4* dense, uint4* sparse, uint32_t* metadata) {
  dense += int64_t{blockIdx.y} * (kWeights / 8);
  sparse += int64_t{blockIdx.y} * (kWeights / 16);
  metadata += int64_t{blockIdx.y} * (kWeights / 32);
  const int lane = threadIdx.x % 32, tile = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  const int in_block = tile % 8, k32 = tile / 8 % (kInputs / 32), block = tile / 8 / (kInputs / 32);
  const int row = block * kRowsPerBlock + in_block * 16 + lane / 4;
  uint32_t packed[8] = {}, kept[4] = {};
  for (int half = 0; half < 2; ++half) {    // rows r and r + 8
    for (int part = 0; part < 4; ++part) {  // K in pieces of 8: columns (lane % 4) * 2 of each
      const Group g = group_at(*seed, row + half * 8, k32 * 8 + part * 2 + lane % 4 / 2);
      packed[part / 2 * 4 + part % 2 * 2 + half] =
          bf16_pair(g.values[lane % 2 * 2], g.values[lane % 2 * 2 + 1]);
    }
    for (int part = 0; part < 2; ++part) {  // kept values: 16 per row, each group gives two neighbours
      const Group g = group_at(*seed, row + half * 8, k32 * 8 + part * 4 + lane % 4);
      kept[part * 2 + half] = bf16_pair(g.values[g.pair & 3], g.values[g.pair >> 2]);
    }
  }
  dense[(tile * 2) * 32 + lane] = make_uint4(packed[0], packed[1], packed[2], packed[3]);
  dense[(tile * 2 + 1) * 32 + lane] = make_uint4(packed[4], packed[5], packed[6], packed[7]);
  sparse[tile * 32 + lane] = make_uint4(kept[0], kept[1], kept[2], kept[3]);
  if (lane % 4 < 2) {  // lanes 0 and 1 of four: K 0..15 and 16..31; low half row r, high half row r + 8
    uint32_t word = 0;
    for (int half = 0; half < 2; ++half)
      for (int g = 0; g < 4; ++g)
        word |= group_at(*seed, row + half * 8, k32 * 8 + lane % 4 * 4 + g).pair << (half * 16 + g * 4);
    metadata[tile * 16 + lane / 4 * 2 + lane % 4] = word;
  }
}

// X in order [8 rows' tile][k of 32]: one fragment of 32 x 8.
__global__ void pack_inputs(const float* x, uint4* packed) {
  const int lane = threadIdx.x % 32, tile = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  const int k32 = tile % (kInputs / 32), n = tile / (kInputs / 32) * 8 + lane / 4;
  const float* at = x + static_cast<int64_t>(n) * kInputs + k32 * 32 + lane % 4 * 2;
  packed[tile * 32 + lane] = make_uint4(
      bf16_pair(at[0], at[1]), bf16_pair(at[8], at[9]), bf16_pair(at[16], at[17]), bf16_pair(at[24], at[25]));
}

__device__ inline void multiply_sparse(float (&d)[4], const uint4& a, const uint4& b, uint32_t metadata) {
  asm volatile(
      "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
      "{%4, %5, %6, %7}, {%8, %9, %10, %11}, {%0, %1, %2, %3}, %12, 0x0;"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b.x), "r"(b.y), "r"(b.z), "r"(b.w), "r"(metadata));
}

// How a block's eight warps share 128 outputs x kColumns rows of X.
template <bool kIsSparse, int kWarpsAcross, int kTilesAcross>
struct Shape {
  static constexpr bool kSparse = kIsSparse;
  static constexpr int kAcross = kWarpsAcross, kTiles = kTilesAcross;  // warps and 8-row tiles along X
  static constexpr int kDown = 8 / kAcross, kBands = 8 / kDown;        // warps and 16-output bands along W
  static constexpr int kColumns = kAcross * kTiles * 8;
  static constexpr int kWeightBytes = kStep / 32 * 8 * kFragment * (kSparse ? 1 : 2);
  static constexpr int kMetadataBytes = kSparse ? kStep / 32 * 8 * 64 : 0;
  static constexpr int kInputBytes = kStep / 32 * kFragment;  // of one 8-row tile
  static constexpr int kStageBytes = kWeightBytes + kMetadataBytes + kAcross * kTiles * kInputBytes;
};

template <class S>
__device__ void fill_stage(unsigned char* to, uint64_t* full, const unsigned char* weights,
    const unsigned char* metadata, const unsigned char* inputs, int step) {
  ptx::barrier_expect_bytes(full, S::kStageBytes);
  const int64_t at = int64_t{blockIdx.x} * (kInputs / kStep) + step;
  ptx::copy_bytes(to, weights + at * S::kWeightBytes, S::kWeightBytes, full);
  if constexpr (S::kSparse)
    ptx::copy_bytes(to + S::kWeightBytes, metadata + at * S::kMetadataBytes, S::kMetadataBytes, full);
  for (int t = 0; t < S::kAcross * S::kTiles; ++t) {
    const int64_t tile = int64_t{blockIdx.y} * S::kAcross * S::kTiles + t;
    ptx::copy_bytes(to + S::kWeightBytes + S::kMetadataBytes + t * S::kInputBytes,
        inputs + (tile * (kInputs / kStep) + step) * S::kInputBytes, S::kInputBytes, full);
  }
}

template <class S>
__device__ inline void multiply_stage(const unsigned char* stage, float (&sums)[S::kBands][S::kTiles][4]) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int band0 = warp / S::kAcross * S::kBands, tile0 = warp % S::kAcross * S::kTiles;
  const unsigned char* inputs = stage + S::kWeightBytes + S::kMetadataBytes;
#pragma unroll
  for (int k = 0; k < kStep / 32; ++k) {
    uint4 b[S::kTiles];
#pragma unroll
    for (int t = 0; t < S::kTiles; ++t)
      b[t] =
          *reinterpret_cast<const uint4*>(inputs + ((tile0 + t) * (kStep / 32) + k) * kFragment + lane * 16);
#pragma unroll
    for (int i = 0; i < S::kBands; ++i) {
      const int fragment = k * 8 + band0 + i;
      if constexpr (S::kSparse) {
        const uint4 a = *reinterpret_cast<const uint4*>(stage + fragment * kFragment + lane * 16);
        const uint32_t metadata = *reinterpret_cast<const uint32_t*>(
            stage + S::kWeightBytes + fragment * 64 + lane / 4 * 8 + lane % 2 * 4);
#pragma unroll
        for (int t = 0; t < S::kTiles; ++t) multiply_sparse(sums[i][t], a, b[t], metadata);
      } else {
        const auto* at = reinterpret_cast<const uint4*>(stage + fragment * 2 * kFragment + lane * 16);
        const uint4 low = at[0], high = at[kFragment / 16];
#pragma unroll
        for (int t = 0; t < S::kTiles; ++t) {
          ptx::multiply_bf16(sums[i][t], low, b[t].x, b[t].y);
          ptx::multiply_bf16(sums[i][t], high, b[t].z, b[t].w);
        }
      }
    }
  }
}

// y [rows of X, kOutputs] f32.
template <class S>
__global__ __launch_bounds__(kThreads) void product(
    const unsigned char* weights, const unsigned char* metadata, const unsigned char* inputs, float* y) {
  extern __shared__ __align__(128) unsigned char smem[];
  __shared__ uint64_t full[kStages];
  if (threadIdx.x == 0) {
    for (uint64_t& barrier : full) ptx::barrier_init(&barrier, 1);
    ptx::fence_barrier_init();
  }
  __syncthreads();
  constexpr int kSteps = kInputs / kStep;
  if (threadIdx.x == 0)
    for (int s = 0; s < kStages; ++s)
      fill_stage<S>(smem + s * S::kStageBytes, &full[s], weights, metadata, inputs, s);
  float sums[S::kBands][S::kTiles][4] = {};
  for (int step = 0; step < kSteps; ++step) {
    const int stage = step % kStages;
    ptx::barrier_wait(&full[stage], (step / kStages) & 1);
    multiply_stage<S>(smem + stage * S::kStageBytes, sums);
    __syncthreads();
    if (threadIdx.x == 0 && step + kStages < kSteps)
      fill_stage<S>(smem + stage * S::kStageBytes, &full[stage], weights, metadata, inputs, step + kStages);
  }
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < S::kBands; ++i)
#pragma unroll
    for (int t = 0; t < S::kTiles; ++t) {
      const int64_t output =
          int64_t{blockIdx.x} * kRowsPerBlock + (warp / S::kAcross * S::kBands + i) * 16 + lane / 4;
      const int64_t row =
          int64_t{blockIdx.y} * S::kColumns + (warp % S::kAcross * S::kTiles + t) * 8 + lane % 4 * 2;
#pragma unroll
      for (int v = 0; v < 4; ++v) y[(row + v % 2) * kOutputs + output + v / 2 * 8] = sums[i][t][v];
    }
}

__global__ void exact(const uint32_t* seed, const float* x, float* y, int rows) {
  const int output = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
  if (row >= rows) return;
  float sum = 0.f;  // whole numbers far below 2^24: exact
  for (int g = 0; g < kInputs / 4; ++g) {
    const Group group = group_at(*seed, output, g);
    for (int i = 0; i < 4; ++i) sum += group.values[i] * x[static_cast<int64_t>(row) * kInputs + g * 4 + i];
  }
  y[static_cast<int64_t>(row) * kOutputs + output] = sum;
}

// The operands in the kernels' order; stale until the first launch after new inputs, which is never a timed
// one.
struct Packed {
  DeviceScratch<uint4> dense, sparse, inputs;
  DeviceScratch<uint32_t> metadata;
  std::shared_ptr<bool> stale;
  std::shared_ptr<int64_t> turn;  // which copy of W is next
};

template <class S>
void run(const Launch& at, const Packed& packed, Array<float> y, int64_t rows) {
  const int64_t copy = (*packed.turn)++ % kCopies;
  const uint4* weights = S::kSparse ? packed.sparse.data() + copy * (kWeights / 16)
                                    : packed.dense.data() + copy * (kWeights / 8);
  const auto bytes = [](const auto* data) { return reinterpret_cast<const unsigned char*>(data); };
  gpu::launch({.kernel = "sparse24",
                  .grid = {kOutputs / kRowsPerBlock, rows / S::kColumns},
                  .block = {kThreads},
                  .shared_bytes = kStages * S::kStageBytes},
      at.stream(), product<S>, bytes(weights), bytes(packed.metadata.data() + copy * (kWeights / 32)),
      bytes(packed.inputs.data()), at[y]);
}
template <bool kSparse>
void run_fitting(const Launch& at, const Packed& packed, Array<float> y, int64_t rows) {
  if (rows <= 8) return run<Shape<kSparse, 1, 1>>(at, packed, y, rows);
  if (rows <= 32) return run<Shape<kSparse, 1, 4>>(at, packed, y, rows);
  if (rows <= 128) return run<Shape<kSparse, 4, 4>>(at, packed, y, rows);
  run<Shape<kSparse, 4, 8>>(at, packed, y, rows);
}

std::unique_ptr<Trial> make(const Setup& setup) {
  const int64_t rows = setup.dim(0);
  auto trial = std::make_unique<ArrayTrial>(setup);
  const Packed packed{{setup, kCopies * kWeights / 8}, {setup, kCopies * kWeights / 16},
      {setup, rows * kInputs / 8}, {setup, kCopies * kWeights / 32}, std::make_shared<bool>(true),
      std::make_shared<int64_t>(0)};
  const auto seed =
      trial->input_from<uint32_t>("seed", 1, [stale = packed.stale](std::span<uint32_t> to, uint64_t from) {
        to[0] = static_cast<uint32_t>(from);
        *stale = true;
      });
  const auto x = trial->input_from<float>("x", rows * kInputs, [](std::span<float> values, uint64_t from) {
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(static_cast<int>(uniform_at(from, i) * 7) - 3);
  });
  const auto y = trial->output<float>("y", rows * kOutputs);
  const double flops = 2.0 * rows * kWeights, others = rows * (2.0 * kInputs + 4.0 * kOutputs);
  trial->set_cost({.flops = flops, .bytes = 2.0 * kWeights + others, .roof = Roof::kDramRead});
  trial->set_cost(
      "sparse", {.flops = flops / 2, .bytes = 1.125 * kWeights + others, .roof = Roof::kDramRead});
  trial->device_reference([=](const Launch& at) {
    gpu::launch({.kernel = "exact", .grid = {kOutputs / 256, rows}, .block = {256}}, at.stream(), exact,
        at[seed], at[x], at[y], static_cast<int>(rows));
  });
  const auto pack = [=](const Launch& at) {
    if (!*packed.stale) return;
    *packed.stale = false;
    gpu::launch({.kernel = "pack_weights", .grid = {kWeights / 512 * 32 / 256, kCopies}, .block = {256}},
        at.stream(), pack_weights, at[seed], packed.dense.data(), packed.sparse.data(),
        packed.metadata.data());
    gpu::launch({.kernel = "pack_inputs", .grid = {rows * kInputs / 256 * 32 / 256}, .block = {256}},
        at.stream(), pack_inputs, at[x], packed.inputs.data());
  };
  trial->variant("dense", [=](const Launch& at) {
    pack(at);
    run_fitting<false>(at, packed, y, rows);
  });
  trial->variant("sparse", [=](const Launch& at) {
    pack(at);
    run_fitting<true>(at, packed, y, rows);
  });
  return trial;
}

const Registered kSparse24({
    .id = "ch09/sparse-2-4",
    .title = "2:4 sparse weights on the tensor cores",
    .question = "From which batch on does a 2:4 sparse weight matrix pay, and how much?",
    .mechanism =
        "Small batches are bound by the bytes of W: 1.125 instead of 2 a weight, so at most 1.78 times "
        "faster. Large "
        "ones are bound by the tensor cores, which pass two of four products by: up to 2 times, if the other "
        "operand's traffic from shared memory, which does not shrink, allows it.",
    .claim = {.text = "Up to 2 times over dense, for large products and batches of 128 to 256; small batches "
                      "gain little.",
        .variant = "sparse",
        .speedup = 2},
    .rotation = Rotation::kHot,  // W rotates by itself
    .min_compute = 90,
    .variants = {{.name = "dense", .idea = "mma.sync m16n8k16 over all weights, zeros included"},
        {.name = "sparse", .idea = "mma.sp m16n8k32 over packed weights and metadata"}},
    .sizes = {{.label = "batch 8", .dims = {8}}, {.label = "batch 32", .dims = {32}},
        {.label = "batch 128", .dims = {128}}, {.label = "batch 512", .dims = {512}},
        {.label = "batch 2048", .dims = {2048}}},
    .quick = {{.label = "batch 8", .dims = {8}}},
    .tolerance = {.relative = 1e-6, .absolute = 0.01},
    .make = make,
});

}  // namespace
}  // namespace cheetah::lab
