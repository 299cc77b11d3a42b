// SPDX-License-Identifier: MIT
// C = A B in F32 on the ordinary cores, one more level of reuse a rung: none, shared memory, registers, and
// the next tile fetched while this one is multiplied. A [m, k], B [k, n] and C [m, n] are square and
// row-major.
//
// FLOPs: 2 n^3. Bytes: 12 n^2 at least.
#include "gpu/launch.cuh"
#include "lab/array_trial.h"

namespace cheetah::lab {
namespace {

constexpr int kNarrow = 32;  // the plain kernels' tile

__global__ __launch_bounds__(1024) void direct(const float* a, const float* b, float* c, int n) {
  const int row = blockIdx.y * kNarrow + threadIdx.y, column = blockIdx.x * kNarrow + threadIdx.x;
  float sum = 0.f;
  for (int k = 0; k < n; ++k) sum = fmaf(a[row * n + k], b[k * n + column], sum);
  c[row * n + column] = sum;
}

__global__ __launch_bounds__(1024) void shared_tile(const float* a, const float* b, float* c, int n) {
  __shared__ float tile_a[kNarrow][kNarrow], tile_b[kNarrow][kNarrow];
  const int row = blockIdx.y * kNarrow + threadIdx.y, column = blockIdx.x * kNarrow + threadIdx.x;
  float sum = 0.f;
  for (int k = 0; k < n; k += kNarrow) {
    tile_a[threadIdx.y][threadIdx.x] = a[row * n + k + threadIdx.x];
    tile_b[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * n + column];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kNarrow; ++i) sum = fmaf(tile_a[threadIdx.y][i], tile_b[i][threadIdx.x], sum);
    __syncthreads();
  }
  c[row * n + column] = sum;
}

// 128 x 128 outputs a block, 8 x 8 per thread, eight of K a step. A's tile lies transposed, so that both
// operands are read from shared memory 16 bytes at a time.
constexpr int kTile = 128, kStep = 8, kThreads = 256;

struct Tiles {
  float a[kStep][kTile + 4];
  float b[kStep][kTile];
};
struct Fetched {
  float4 a, b;
};

__device__ inline Fetched fetch(const float* a, const float* b, int n, int k) {
  const int t = static_cast<int>(threadIdx.x);
  return {*reinterpret_cast<const float4*>(a + (blockIdx.y * kTile + t / 2) * n + k + t % 2 * 4),
      *reinterpret_cast<const float4*>(b + (k + t / 32) * n + blockIdx.x * kTile + t % 32 * 4)};
}
__device__ inline void put(Tiles& tiles, const Fetched& v) {
  const int t = static_cast<int>(threadIdx.x), row = t / 2, k = t % 2 * 4;
  tiles.a[k][row] = v.a.x;
  tiles.a[k + 1][row] = v.a.y;
  tiles.a[k + 2][row] = v.a.z;
  tiles.a[k + 3][row] = v.a.w;
  *reinterpret_cast<float4*>(&tiles.b[t / 32][t % 32 * 4]) = v.b;
}
__device__ inline void multiply(const Tiles& tiles, float (&sums)[8][8]) {
  const int row = static_cast<int>(threadIdx.x) / 16 * 4, column = static_cast<int>(threadIdx.x) % 16 * 4;
#pragma unroll
  for (int k = 0; k < kStep; ++k) {
    float a[8], b[8];
    *reinterpret_cast<float4*>(a) = *reinterpret_cast<const float4*>(&tiles.a[k][row]);
    *reinterpret_cast<float4*>(a + 4) = *reinterpret_cast<const float4*>(&tiles.a[k][row + 64]);
    *reinterpret_cast<float4*>(b) = *reinterpret_cast<const float4*>(&tiles.b[k][column]);
    *reinterpret_cast<float4*>(b + 4) = *reinterpret_cast<const float4*>(&tiles.b[k][column + 64]);
#pragma unroll
    for (int i = 0; i < 8; ++i)
#pragma unroll
      for (int j = 0; j < 8; ++j) sums[i][j] = fmaf(a[i], b[j], sums[i][j]);
  }
}
__device__ inline void store(float* c, int n, const float (&sums)[8][8]) {
  const int row = blockIdx.y * kTile + threadIdx.x / 16 * 4,
            column = blockIdx.x * kTile + threadIdx.x % 16 * 4;
#pragma unroll
  for (int i = 0; i < 8; ++i)
#pragma unroll
    for (int half = 0; half < 2; ++half)
      *reinterpret_cast<float4*>(c + (row + i % 4 + i / 4 * 64) * n + column + half * 64) =
          *reinterpret_cast<const float4*>(&sums[i][half * 4]);
}

__global__ __launch_bounds__(kThreads) void microtile(const float* a, const float* b, float* c, int n) {
  __shared__ __align__(16) Tiles tiles;
  float sums[8][8] = {};
  for (int k = 0; k < n; k += kStep) {
    put(tiles, fetch(a, b, n, k));
    __syncthreads();
    multiply(tiles, sums);
    __syncthreads();
  }
  store(c, n, sums);
}

// The next tile travels to registers during the products, and to the other buffer after them: one barrier a
// step.
__global__ __launch_bounds__(kThreads) void microtile_prefetched(
    const float* a, const float* b, float* c, int n) {
  __shared__ __align__(16) Tiles tiles[2];
  float sums[8][8] = {};
  put(tiles[0], fetch(a, b, n, 0));
  __syncthreads();
  for (int k = kStep; k < n; k += kStep) {
    const int now = (k / kStep + 1) % 2;
    const Fetched next = fetch(a, b, n, k);
    multiply(tiles[now], sums);
    put(tiles[1 - now], next);
    __syncthreads();
  }
  multiply(tiles[(n / kStep + 1) % 2], sums);
  store(c, n, sums);
}

// The oracle: double sums.
__global__ __launch_bounds__(256) void exact(const float* a, const float* b, float* c, int n) {
  const int column = blockIdx.x * 256 + threadIdx.x, row = blockIdx.y;
  double sum = 0;
  for (int k = 0; k < n; ++k)
    sum = fma(static_cast<double>(a[row * n + k]), static_cast<double>(b[k * n + column]), sum);
  c[row * n + column] = static_cast<float>(sum);
}

std::unique_ptr<Trial> make(const Setup& setup) {
  const int n = static_cast<int>(setup.dim(0));
  auto trial = std::make_unique<ArrayTrial>(setup);
  const auto a = trial->input<float>("a", int64_t{n} * n);
  const auto b = trial->input<float>("b", int64_t{n} * n);
  const auto c = trial->output<float>("c", int64_t{n} * n);
  trial->set_cost({.flops = 2.0 * n * n * n, .bytes = 12.0 * n * n, .roof = Roof::kFp32});
  trial->device_reference([=](const Launch& at) {
    gpu::launch({.kernel = "exact", .grid = {n / 256, n}, .block = {256}}, at.stream(), exact, at[a], at[b],
        at[c], n);
  });
  const auto add = [&](const char* name, auto kernel, int tile, gpu::Extent block) {
    trial->variant(name, [=](const Launch& at) {
      gpu::launch({.kernel = name, .grid = {n / tile, n / tile}, .block = block}, at.stream(), kernel, at[a],
          at[b], at[c], n);
    });
  };
  add("direct", direct, kNarrow, {kNarrow, kNarrow});
  add("shared-tile", shared_tile, kNarrow, {kNarrow, kNarrow});
  add("microtile", microtile, kTile, {kThreads});
  add("microtile-prefetch", microtile_prefetched, kTile, {kThreads});
  return trial;
}

const Registered kMicrotile({
    .id = "ch09/microtile-gemm",
    .title = "F32 products: tiles in shared memory, microtiles in registers",
    .question = "How far does each level of reuse carry an F32 matrix product towards the FMA roof?",
    .mechanism = "A 32 x 32 tile reuses each element 32 times but still reads two words of shared memory a "
                 "multiply-add; "
                 "an 8 x 8 microtile reads 16 for 64 and leaves the FMA pipe as the limit; fetching the next "
                 "tile early "
                 "hides what latency the other warps do not.",
    .claim =
        {.text =
                "Multilevel tiling keeps data in registers and shared memory and moves the kernel right on the "
                "roofline; no number is given."},
    .variants = {{.name = "direct", .idea = "both operands from memory (L1, L2) for each multiply-add"},
        {.name = "shared-tile", .idea = "32 x 32 tiles in shared memory"},
        {.name = "microtile", .idea = "128 x 128 x 8 tiles, 8 x 8 outputs a thread, 16-byte loads"},
        {.name = "microtile-prefetch", .idea = "the same, double-buffered"}},
    .sizes = sizes_of({512, 1024, 2048, 4096}),
    .quick = sizes_of({512}),
    .tolerance = {.relative = 1e-4, .absolute = 2e-3},
    .make = make,
});

}  // namespace
}  // namespace cheetah::lab
