// SPDX-License-Identifier: MIT
// Which block computes which tile, and when it writes it: persistent blocks with two warpgroups on one tile
// or taking turns (ping-pong), and the order in which blocks walk the output.
#include "lab/experiments/ch10_pipelines/bf16_product.cuh"

namespace cheetah::lab {
namespace {

using namespace bf16_product;

constexpr int kStages = 4;

struct Pipe {
  uint64_t full[kStages], empty[kStages];
  uint64_t turn[2];  // ping-pong: a warpgroup's products may begin
};

__device__ inline void copy_step(Pipe& pipe, unsigned char* smem, const gpu::TensorMap& a_map,
    const gpu::TensorMap& b_map, int it, int k, int row, int column) {
  const int stage = it % kStages;
  unsigned char* to = smem + stage * kStageBytes;
  ptx::barrier_wait(&pipe.empty[stage], ((it / kStages) & 1) ^ 1);
  ptx::barrier_expect_bytes(&pipe.full[stage], kStageBytes);
  ptx::copy_box_2d(to, &a_map, k * kStep, row, &pipe.full[stage], ptx::kEvictLast);
  ptx::copy_box_2d(to + kOperandBytes, &b_map, k * kStep, column, &pipe.full[stage], ptx::kEvictLast);
}

__device__ inline float gelu(float x) {
  return 0.5f * x * (1.f + tanhf(0.7978845608f * (x + 0.044715f * x * x * x)));
}

// Both warpgroups work on the same tile, then both write it: the tensor cores rest meanwhile.
__device__ void multiply_together(Pipe& pipe, unsigned char* smem, __nv_bfloat16* c, const Shape& s) {
  const int group = threadIdx.x / 128 - 1, steps = s.k / kStep, columns = s.n / kTile;
  float sums[64];
  int it = 0;
  for (int tile = blockIdx.x; tile < s.m / kTile * columns; tile += gridDim.x) {
    for (int k = 0; k < steps; ++k, ++it) {
      ptx::barrier_wait(&pipe.full[it % kStages], (it / kStages) & 1);
      wgmma::fence();
      multiply_step(sums, smem + it % kStages * kStageBytes, group * 64, k);
      wgmma::commit();
      wgmma::wait<1>();
      if (k > 0 && threadIdx.x % 128 == 0) ptx::barrier_arrive(&pipe.empty[(it - 1) % kStages]);
    }
    wgmma::wait<0>();
    if (threadIdx.x % 128 == 0) ptx::barrier_arrive(&pipe.empty[(it - 1) % kStages]);
#pragma unroll
    for (float& sum : sums) sum = gelu(sum);
    store_sums(sums, c, s.n, tile / columns * kTile + group * 64, tile % columns * kTile);
  }
}

// The warpgroups take every other tile of the block and all of it; while one writes, the other multiplies.
// The turns keep a warpgroup from waiting on a barrier whose phase it has not reached.
__device__ void multiply_in_turns(Pipe& pipe, unsigned char* smem, __nv_bfloat16* c, const Shape& s) {
  const int group = threadIdx.x / 128 - 1, steps = s.k / kStep, columns = s.n / kTile;
  float low[64], high[64];
  for (int turn = group;; turn += 2) {
    const int tile = blockIdx.x + turn * gridDim.x;
    if (tile >= s.m / kTile * columns) break;
    if (turn > 0) ptx::barrier_wait(&pipe.turn[group], ((turn - 1) / 2) & 1);
    int it = turn * steps;
    for (int k = 0; k < steps; ++k, ++it) {
      ptx::barrier_wait(&pipe.full[it % kStages], (it / kStages) & 1);
      wgmma::fence();
      multiply_step(low, smem + it % kStages * kStageBytes, 0, k);
      multiply_step(high, smem + it % kStages * kStageBytes, 64, k);
      wgmma::commit();
      wgmma::wait<1>();
      if (k > 0 && threadIdx.x % 128 == 0) ptx::barrier_arrive(&pipe.empty[(it - 1) % kStages]);
    }
    if (threadIdx.x % 128 == 0) ptx::barrier_arrive(&pipe.turn[1 - group]);
    wgmma::wait<0>();
    if (threadIdx.x % 128 == 0) ptx::barrier_arrive(&pipe.empty[(it - 1) % kStages]);
    const int row = tile / columns * kTile, column = tile % columns * kTile;
#pragma unroll
    for (float& sum : low) sum = gelu(sum);
    store_sums(low, c, s.n, row, column);
#pragma unroll
    for (float& sum : high) sum = gelu(sum);
    store_sums(high, c, s.n, row + 64, column);
  }
}

template <bool kInTurns>
__global__ __launch_bounds__(384, 1) void persistent(const __grid_constant__ gpu::TensorMap a_map,
    const __grid_constant__ gpu::TensorMap b_map, __nv_bfloat16* c, const Shape s) {
  extern __shared__ unsigned char raw[];
  unsigned char* smem = ptx::align_shared(raw, 1024);
  __shared__ Pipe pipe;
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      ptx::barrier_init(&pipe.full[i], 1);
      ptx::barrier_init(&pipe.empty[i], kInTurns ? 1 : 2);
    }
    for (uint64_t& turn : pipe.turn) ptx::barrier_init(&turn, 1);
    ptx::fence_barrier_init();
  }
  __syncthreads();
  if (threadIdx.x >= 128) {
    ptx::take_registers<232>();
    if constexpr (kInTurns)
      multiply_in_turns(pipe, smem, c, s);
    else
      multiply_together(pipe, smem, c, s);
    return;
  }
  ptx::give_registers<40>();
  if (threadIdx.x != 0) return;
  const int columns = s.n / kTile;
  int it = 0;
  for (int tile = blockIdx.x; tile < s.m / kTile * columns; tile += gridDim.x)
    for (int k = 0; k < s.k / kStep; ++k, ++it)
      copy_step(pipe, smem, a_map, b_map, it, k, tile / columns * kTile, tile % columns * kTile);
}

__global__ void apply_gelu(__nv_bfloat16* c, int64_t count) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count) c[i] = __float2bfloat16_rn(gelu(__bfloat162float(c[i])));
}

std::unique_ptr<Trial> make_turns(const Setup& setup) {
  const int n = static_cast<int>(setup.dim(0)), k = static_cast<int>(setup.dim(1));
  const Shape s{n, n, k};
  auto trial = std::make_unique<ArrayTrial>(setup);
  const Arrays arrays = declare(*trial, s);
  trial->set_tolerance(
      {.relative = 1.0 / 64, .absolute = 0.05});  // the oracle rounds before the GELU as well
  trial->device_reference([=](const Launch& at) {
    gpu::launch({.kernel = "exact", .grid = {n / 32, n / 32}, .block = {32, 32}}, at.stream(), exact,
        at[arrays.a], at[arrays.b], at[arrays.c], s);
    gpu::launch({.kernel = "apply_gelu", .grid = {int64_t{n} * n / 256}, .block = {256}}, at.stream(),
        apply_gelu, at[arrays.c], int64_t{n} * n);
  });
  const auto add = [&](const char* name, auto kernel) {
    trial->variant(name, [=](const Launch& at) {
      gpu::launch({.kernel = name,
                      .grid = {at.stream().device().num_sms},
                      .block = {384},
                      .shared_bytes = kStages * kStageBytes + 1024},
          at.stream(), kernel, map_of(at[arrays.a], n, k, kTile), map_of(at[arrays.b], n, k, kTile),
          at[arrays.c], s);
    });
  };
  add("together", persistent<false>);
  add("ping-pong", persistent<true>);
  return trial;
}

const Registered kPingPong({
    .id = "ch10/ping-pong",
    .title = "Two multiplying warpgroups, together or in turns",
    .question = "What is gained when one warpgroup writes its tile while the other multiplies?",
    .mechanism = "Together, the tensor cores rest while both apply the GELU and write; in turns, one's "
                 "epilogue hides behind "
                 "the other's products. The shorter K, the larger the epilogue's share.",
    .claim = {.text = "The ping-pong schedule overlaps the epilogue of one consumer group with the products "
                      "of the other.",
        .variant = "ping-pong"},
    .min_compute = 90,
    .variants = {{.name = "together", .idea = "each tile shared by both warpgroups, 64 rows each"},
        {.name = "ping-pong", .idea = "whole tiles in turns, 128 rows a warpgroup"}},
    .sizes = {{.label = "4096 x 4096 x 256", .dims = {4096, 256}},
        {.label = "4096 x 4096 x 1024", .dims = {4096, 1024}},
        {.label = "4096 x 4096 x 4096", .dims = {4096, 4096}}},
    .quick = {{.label = "1024 x 1024 x 256", .dims = {1024, 256}}},
    .make = make_turns,
});

// The order of tiles. Blocks start in order of their index, so a wave is a range of indices.
enum class Order { kRows, kColumns, kGroups, kMorton };

template <Order kOrder>
__device__ inline int2 tile_at(int index, int tiles) {  // x: row, y: column of a square of tiles
  if constexpr (kOrder == Order::kRows) return make_int2(index / tiles, index % tiles);
  if constexpr (kOrder == Order::kColumns) return make_int2(index % tiles, index / tiles);
  if constexpr (kOrder == Order::kGroups) {
    constexpr int kRowsOfGroup = 8;
    const int in = index % (kRowsOfGroup * tiles);
    return make_int2(index / (kRowsOfGroup * tiles) * kRowsOfGroup + in % kRowsOfGroup, in / kRowsOfGroup);
  }
  int2 at = make_int2(0, 0);  // Morton: every other bit
  for (int bit = 0; bit < 8; ++bit) {
    at.y |= (index >> (2 * bit) & 1) << bit;
    at.x |= (index >> (2 * bit + 1) & 1) << bit;
  }
  return at;
}

template <Order kOrder>
__global__ __launch_bounds__(384, 1) void ordered(const __grid_constant__ gpu::TensorMap a_map,
    const __grid_constant__ gpu::TensorMap b_map, __nv_bfloat16* c, const Shape s) {
  extern __shared__ unsigned char raw[];
  unsigned char* smem = ptx::align_shared(raw, 1024);
  __shared__ Pipe pipe;
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      ptx::barrier_init(&pipe.full[i], 1);
      ptx::barrier_init(&pipe.empty[i], 2);
    }
    ptx::fence_barrier_init();
  }
  __syncthreads();
  const int2 at = tile_at<kOrder>(blockIdx.x, s.n / kTile);
  const int steps = s.k / kStep;
  if (threadIdx.x < 128) {
    ptx::give_registers<40>();
    for (int k = 0; threadIdx.x == 0 && k < steps; ++k)
      copy_step(pipe, smem, a_map, b_map, k, k, at.x * kTile, at.y * kTile);
    return;
  }
  ptx::take_registers<232>();
  const int group = threadIdx.x / 128 - 1;
  float sums[64];
  for (int k = 0; k < steps; ++k) {
    ptx::barrier_wait(&pipe.full[k % kStages], (k / kStages) & 1);
    wgmma::fence();
    multiply_step(sums, smem + k % kStages * kStageBytes, group * 64, k);
    wgmma::commit();
    wgmma::wait<1>();
    if (k > 0 && threadIdx.x % 128 == 0) ptx::barrier_arrive(&pipe.empty[(k - 1) % kStages]);
  }
  wgmma::wait<0>();
  store_sums(sums, c, s.n, at.x * kTile + group * 64, at.y * kTile);
}

std::unique_ptr<Trial> make_order(const Setup& setup) {
  const int n = static_cast<int>(setup.dim(0));
  const Shape s{n, n, n};
  auto trial = std::make_unique<ArrayTrial>(setup);
  const Arrays arrays = declare(*trial, s);
  const auto add = [&](const char* name, auto kernel) {
    trial->variant(name, [=](const Launch& at) {
      gpu::launch({.kernel = name,
                      .grid = {n / kTile * (n / kTile)},
                      .block = {384},
                      .shared_bytes = kStages * kStageBytes + 1024},
          at.stream(), kernel, map_of(at[arrays.a], n, n, kTile), map_of(at[arrays.b], n, n, kTile),
          at[arrays.c], s);
    });
  };
  add("row-major", ordered<Order::kRows>);
  add("column-major", ordered<Order::kColumns>);
  add("groups-of-8", ordered<Order::kGroups>);
  add("morton", ordered<Order::kMorton>);
  return trial;
}

const Registered kTileOrder({
    .id = "ch10/block-swizzle",
    .title = "The order in which blocks walk the output",
    .question = "Does a compact wave of tiles keep more of A and B in L2?",
    .mechanism =
        "A row-major wave of 132 tiles touches two rows of A's tiles and all of B; a compact one about 12 of "
        "each. Where "
        "both matrices outgrow L2 the compact order reads less from memory; where they fit, nothing changes.",
    .claim = {.text = "Swizzling brings double-digit percentages to persistent tiled products.",
        .variant = "groups-of-8",
        .speedup = 1.1},
    .min_compute = 90,
    .variants = {{.name = "row-major", .idea = "all columns of a row of tiles first"},
        {.name = "column-major", .idea = "all rows of a column first"},
        {.name = "groups-of-8", .idea = "eight rows of tiles walked column by column"},
        {.name = "morton", .idea = "squares within squares"}},
    .sizes = sizes_of({2048, 8192}),
    .quick = sizes_of({2048}),
    .make = make_order,
});

}  // namespace
}  // namespace cheetah::lab
