// SPDX-License-Identifier: MIT
// Products of decode steps with W stored in blocks of four to eight bits: few rows of x, so W's bytes are all
// that matters. A warp takes four rows of W; the copy engine brings 1024 numbers of each at a time into the
// warp's own ring of shared memory, whatever their alignment. A lane widens 32 of them to whole numbers of
// eight bits and multiplies them with x, four at a time. Every block rounds x for itself, to eight bits in
// blocks of 32, while its first weights travel.
//
// Bytes: W as stored. Integer products: m n k / 4.
#include <algorithm>

#include "gpu/launch.cuh"
#include "gpu/ptx.cuh"
#include "gpu/shared_memory.cuh"
#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/pieces.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/gemm/cuda/hopper_blocks.cuh"
#include "kernels/gemm/cuda/hopper_blocks.h"
#include "kernels/gemm/cuda/hopper_epilogue.cuh"

namespace cheetah::gpu {
namespace {

constexpr int kRows = 4;      // of W a warp; gated: two gates and what they let through
constexpr int kChunk = 1024;  // numbers of a row per stage: 32 per lane
constexpr int kMaxStages = 8;
constexpr int kSharedBytes = 225 << 10;
constexpr int kBlock = 32;  // numbers of x with one scale

// A block of x: its scale and the sum of each half's levels.
struct XBlock {
  float scale;
  int16_t sums[2];
};

struct BlocksTask {
  const std::byte* w;
  int64_t row_bytes, rows;  // rows: gated, of one half
  int cols, chunks, m;
  int stages = 0;
  bool gated;
  const Bf16* x;
  int64_t x_stride;
  const float* bias;
  const Bf16* residual;
  int64_t residual_stride;
  void* y;
  int64_t y_stride;
  bool f32_output;

  constexpr int outputs_each() const { return gated ? kRows / 2 : kRows; }
  constexpr int64_t groups() const { return (rows + outputs_each() - 1) / outputs_each(); }
  constexpr int64_t row_at(int64_t group, int i) const {
    const int64_t output = group * outputs_each() + i % outputs_each();
    return (output < rows ? output : rows - 1) + i / outputs_each() * rows;
  }
};

template <DType kType, int kTokenCount>
struct Shape {
  using Format = blocks::Format<kType>;
  static constexpr int kTokens = kTokenCount;
  static constexpr int kWarps = kTokens == 1 ? 16 : 8, kThreads = kWarps * kWarpSize;
  static constexpr int kChunkBytes = kChunk / Format::kElements * Format::kBytes;
  static constexpr int kPieceBytes = (kChunkBytes + 15 + 15) / 16 * 16;  // wherever it begins
  static constexpr int kStageBytes = kRows * kPieceBytes;
  static constexpr int64_t x_bytes(int64_t cols) { return kTokens * (cols + cols / 4); }
};

// Which rows and which chunk of them. Lanes up to kRows know where in W their row begins.
struct Cursor {
  int64_t group;
  int chunk = 0;
  int64_t begin = 0;

  __device__ void find_row(const BlocksTask& task) {
    begin = task.row_at(group, static_cast<int>(threadIdx.x) % kRows) * task.row_bytes;
  }
  __device__ void next(const BlocksTask& task, int64_t step) {
    if (++chunk < task.chunks) return;
    chunk = 0;
    group += step;
    find_row(task);
  }
};

// Lanes up to kRows: a piece of a row each, from the 16 bytes in which it begins to those in which it ends.
template <class S>
__device__ void copy_stage(const BlocksTask& task, const Cursor& at, unsigned char* to, uint64_t* barrier) {
  const int left = task.cols - at.chunk * kChunk, lane = threadIdx.x % kWarpSize;
  const int bytes = left < kChunk ? left / S::Format::kElements * S::Format::kBytes : S::kChunkBytes;
  const int64_t first = at.begin + static_cast<int64_t>(at.chunk) * S::kChunkBytes,
                from = first & ~int64_t{15};
  const auto size = static_cast<uint32_t>(((first + bytes + 15) & ~int64_t{15}) - from);
  ptx::barrier_expect_bytes(barrier, size);
  ptx::copy_bytes(to + lane * S::kPieceBytes, task.w + from, size, barrier);
}

// sums += the lane's 32 numbers of every row times every token's.
template <class S>
__device__ void multiply_stage(const BlocksTask& task, const Cursor& at, const unsigned char* stage,
    const unsigned char* shared_x, float (&sums)[kRows][S::kTokens]) {
  using F = typename S::Format;
  const unsigned lane = threadIdx.x % kWarpSize;
  const int block = at.chunk * (kChunk / kBlock) + static_cast<int>(lane), num_blocks = task.cols / kBlock;
  const int skipped = static_cast<int>(at.begin + at.chunk * S::kChunkBytes) & 15;
  constexpr unsigned kSubBlocks = F::kElements / kBlock;
  blocks::Levels w[kRows];
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    const uint8_t* piece = stage + i * S::kPieceBytes + __shfl_sync(kWholeWarp, skipped, i);
    w[i] = F::read(piece + lane / kSubBlocks * F::kBytes, lane % kSubBlocks);
  }
  if (block >= num_blocks) return;
  const auto* levels = reinterpret_cast<const uint4*>(shared_x);
  const auto* x_blocks = reinterpret_cast<const XBlock*>(shared_x + S::kTokens * task.cols);
#pragma unroll
  for (int t = 0; t < S::kTokens; ++t) {
    const uint4 low = levels[t * 2 * num_blocks + block], high = levels[(t * 2 + 1) * num_blocks + block];
    const XBlock x = x_blocks[t * num_blocks + block];
    const uint32_t words[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
    const float ones[2] = {static_cast<float>(F::kParts == 1 ? x.sums[0] + x.sums[1] : x.sums[0]),
        static_cast<float>(x.sums[1])};
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      int dots[F::kParts] = {};
#pragma unroll
      for (int j = 0; j < 8; ++j)
        dots[j * F::kParts / 8] =
            __dp4a(static_cast<int>(w[i].words[j]), static_cast<int>(words[j]), dots[j * F::kParts / 8]);
      float sum = 0.f;
#pragma unroll
      for (int part = 0; part < F::kParts; ++part) {
        sum += w[i].scale[part] * static_cast<float>(dots[part]);
        if constexpr (F::kOffset) sum += w[i].offset[part] * ones[part];
      }
      sums[i][t] += x.scale * sum;
    }
  }
}

__device__ inline void store_output(const BlocksTask& task, int token, int64_t output, float value) {
  if (token >= task.m || output >= task.rows) return;
  if (task.residual) value += widen(task.residual[token * task.residual_stride + output]);
  const int64_t at = token * task.y_stride + output;
  if (task.f32_output)
    static_cast<float*>(task.y)[at] = value;
  else
    static_cast<Bf16*>(task.y)[at] = narrow<Bf16>(value);
}

// The lanes' parts added up; each lane stores its share of the outputs.
template <class S>
__device__ void finish_rows(const BlocksTask& task, int64_t group, float (&sums)[kRows][S::kTokens]) {
  const int lane = threadIdx.x % kWarpSize;
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    const float bias = task.bias ? task.bias[task.row_at(group, i)] : 0.f;
#pragma unroll
    for (int t = 0; t < S::kTokens; ++t) sums[i][t] = warp_sum(sums[i][t]) + bias;
  }
  const int64_t first = group * task.outputs_each();
#pragma unroll
  for (int i = 0; i < kRows; ++i)
#pragma unroll
    for (int t = 0; t < S::kTokens; ++t) {
      if (lane != i * S::kTokens + t) continue;
      if (!task.gated)
        store_output(task, t, first + i, sums[i][t]);
      else if (i < kRows / 2)
        store_output(task, t, first + i, hopper::gated_silu(sums[i][t], sums[(i + kRows / 2) % kRows][t]));
    }
}

// Eight numbers of x a lane, four lanes a block of 32. Tokens that are not there are zero.
template <class S>
__device__ void round_x(const BlocksTask& task, unsigned char* shared_x) {
  const int num_blocks = task.cols / kBlock, pieces = task.cols / 8, lane = threadIdx.x % kWarpSize;
  auto* x_blocks = reinterpret_cast<XBlock*>(shared_x + S::kTokens * task.cols);
  for (int base = threadIdx.x - lane; base < S::kTokens * pieces; base += S::kThreads) {
    const int item = base + lane, token = item / pieces, piece = item % pieces, block = piece / 4;
    float numbers[8], largest = 0.f;
    const bool is_there = token < task.m;
    widen_piece<Bf16>(
        is_there ? reinterpret_cast<const uint4*>(task.x + token * task.x_stride)[piece] : uint4{}, numbers);
#pragma unroll
    for (const float number : numbers) largest = fmaxf(largest, fabsf(number));
    largest = fmaxf(largest, __shfl_xor_sync(kWholeWarp, largest, 1));
    largest = fmaxf(fmaxf(largest, __shfl_xor_sync(kWholeWarp, largest, 2)), 1e-30f);
    const float factor = 127.f / largest;
    int sum = 0, rounded[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) sum += rounded[i] = __float2int_rn(numbers[i] * factor);
    sum += __shfl_xor_sync(kWholeWarp, sum, 1);
    const int other = __shfl_xor_sync(kWholeWarp, sum, 2);
    if (token >= S::kTokens) continue;
    const auto pack = [&](int i) {
      return static_cast<uint32_t>((rounded[i] & 255) | (rounded[i + 1] & 255) << 8 |
                                   (rounded[i + 2] & 255) << 16 | (rounded[i + 3] & 255) << 24);
    };
    unsigned char* to =
        shared_x + token * task.cols + (piece % 4 / 2 * num_blocks + block) * 16 + piece % 2 * 8;
    *reinterpret_cast<uint2*>(to) = make_uint2(pack(0), pack(4));
    if (piece % 4 == 0)
      x_blocks[token * num_blocks + block] = {
          largest / 127.f, {static_cast<int16_t>(sum), static_cast<int16_t>(other)}};
  }
}

template <class S>
__global__ __launch_bounds__(S::kThreads, 1) void multiply_rows(const BlocksTask task) {
  extern __shared__ unsigned char raw[];
  __shared__ uint64_t full[S::kWarps][kMaxStages];
  const int warp = threadIdx.x / kWarpSize, lane = threadIdx.x % kWarpSize;
  unsigned char* shared_x = aligned_shared(raw, 16);
  unsigned char* ring = shared_x + S::x_bytes(task.cols) + warp * task.stages * S::kStageBytes;
  uint64_t* barriers = full[warp];
  const int64_t groups = task.groups(), step = int64_t{gridDim.x} * S::kWarps;
  Cursor now{blockIdx.x + static_cast<int64_t>(warp) * gridDim.x};
  now.find_row(task);
  Cursor ahead = now;
  if (lane == 0) {
    for (int s = 0; s < task.stages; ++s) ptx::barrier_init(&barriers[s], kRows);
    ptx::fence_barrier_init();
  }
  __syncwarp();
  for (int s = 0; s < task.stages && ahead.group < groups; ++s, ahead.next(task, step))
    if (lane < kRows) copy_stage<S>(task, ahead, ring + s * S::kStageBytes, &barriers[s]);
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  round_x<S>(task, shared_x);
  __syncthreads();
  float sums[kRows][S::kTokens] = {};
  int slot = 0;
  uint32_t parity = 0;
  for (; now.group < groups; now.next(task, step)) {
    ptx::barrier_wait(&barriers[slot], parity);
    multiply_stage<S>(task, now, ring + slot * S::kStageBytes, shared_x, sums);
    __syncwarp();
    if (ahead.group < groups) {
      if (lane < kRows) copy_stage<S>(task, ahead, ring + slot * S::kStageBytes, &barriers[slot]);
      ahead.next(task, step);
    }
    if (++slot == task.stages) {
      slot = 0;
      parity ^= 1;
    }
    if (now.chunk + 1 < task.chunks) continue;
    finish_rows<S>(task, now.group, sums);
#pragma unroll
    for (auto& row : sums)
#pragma unroll
      for (float& sum : row) sum = 0.f;
  }
}

template <class S>
int stages_for(int64_t cols) {
  const int64_t left = kSharedBytes - S::x_bytes(cols) - 16;
  return static_cast<int>(std::min<int64_t>(kMaxStages, left / (S::kWarps * S::kStageBytes)));
}

template <class S>
void launch_rows(BlocksTask task, Stream& stream) {
  task.stages = stages_for<S>(task.cols);
  launch({.kernel = "hopper_blocks_gemm",
             .grid = {std::min<int64_t>(stream.device().num_sms, task.groups())},
             .block = {S::kThreads},
             .shared_bytes = S::x_bytes(task.cols) + int64_t{S::kWarps} * task.stages * S::kStageBytes + 16,
             .overlaps_previous = true,
             .numbers = {task.m, task.rows, task.cols, task.stages}},
      stream, multiply_rows<S>, task);
}

// Tokens in the largest groups whose x leaves room for a ring.
template <DType kType>
void run_type(const BlocksTask& task, Stream& stream) {
  const auto part = [&](int first, int count) {
    BlocksTask some = task;
    some.m = count;
    some.x += first * task.x_stride;
    if (some.residual) some.residual += first * task.residual_stride;
    some.y = static_cast<std::byte*>(task.y) + first * task.y_stride * (task.f32_output ? 4 : 2);
    return some;
  };
  for (int first = 0; first < task.m;) {
    const int left = task.m - first;
    if (left > 4 && stages_for<Shape<kType, 8>>(task.cols) >= 2) {
      launch_rows<Shape<kType, 8>>(part(first, std::min(left, 8)), stream);
      first += 8;
    } else if (left > 1 && stages_for<Shape<kType, 4>>(task.cols) >= 2) {
      launch_rows<Shape<kType, 4>>(part(first, std::min(left, 4)), stream);
      first += 4;
    } else {
      launch_rows<Shape<kType, 1>>(part(first, 1), stream);
      first += 1;
    }
  }
}

}  // namespace

void hopper_blocks_gemm(const HopperBlocksArgs& args, Stream& stream) {
  const BlocksTask task{.w = args.w.data,
      .row_bytes = row_bytes(args.w.dtype, args.w.cols),
      .rows = args.gated ? args.w.rows / 2 : args.w.rows,
      .cols = static_cast<int>(args.w.cols),
      .chunks = static_cast<int>((args.w.cols + kChunk - 1) / kChunk),
      .m = static_cast<int>(args.m),
      .gated = args.gated,
      .x = args.x,
      .x_stride = args.x_stride,
      .bias = args.bias,
      .residual = args.residual,
      .residual_stride = args.residual_stride,
      .y = args.y,
      .y_stride = args.y_stride,
      .f32_output = args.f32_output};
  switch (args.w.dtype) {
    case DType::kQ8_0:
      return run_type<DType::kQ8_0>(task, stream);
    case DType::kQ4_0:
      return run_type<DType::kQ4_0>(task, stream);
    case DType::kQ4_K:
      return run_type<DType::kQ4_K>(task, stream);
    case DType::kQ5_K:
      return run_type<DType::kQ5_K>(task, stream);
    default:
      return run_type<DType::kQ6_K>(task, stream);
  }
}

}  // namespace cheetah::gpu
