// SPDX-License-Identifier: MIT
// C = A B in F32: how often is a number fetched before it is used up?
#include "lab/experiments/device_trial.cuh"

namespace cheetah::lab {
namespace {

// One thread per element; kAcross: lanes of a warp run along a row of C (coalesced) or down a column.
template <bool kAcross>
__global__ __launch_bounds__(1024) void naive(const float* a, const float* b, float* c, int n) {
  const int fast = static_cast<int>(blockIdx.x * 32 + threadIdx.x),
            slow = static_cast<int>(blockIdx.y * 32 + threadIdx.y);
  const int row = kAcross ? slow : fast, column = kAcross ? fast : slow;
  float sum = 0;
  for (int k = 0; k < n; ++k) sum += a[row * n + k] * b[k * n + column];
  c[row * n + column] = sum;
}

// Square tiles of A and B in shared memory: each number comes from memory once per tile row and is used kTile
// times.
template <int kTile>
__global__ __launch_bounds__(kTile* kTile) void tiled(const float* a, const float* b, float* c, int n) {
  __shared__ float tile_a[kTile][kTile], tile_b[kTile][kTile];
  const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  const int row = static_cast<int>(blockIdx.y) * kTile + y, column = static_cast<int>(blockIdx.x) * kTile + x;
  float sum = 0;
  for (int k0 = 0; k0 < n; k0 += kTile) {
    tile_a[y][x] = a[row * n + k0 + x];
    tile_b[y][x] = b[(k0 + y) * n + column];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kTile; ++k) sum += tile_a[y][k] * tile_b[k][x];
    __syncthreads();
  }
  c[row * n + column] = sum;
}

// A block makes kTile x kTile outputs with 16 x 16 threads, each kTile/16 squared of them in registers: a
// number read from shared memory is used kTile/16 times.
template <int kTile>
__global__ __launch_bounds__(256) void register_tiled(const float* a, const float* b, float* c, int n) {
  constexpr int kDepth = 16, kEach = kTile / 16, kLoads = kTile * kDepth / 256;
  __shared__ float tile_a[kDepth][kTile + 4];  // transposed; the pad spreads the column writes over the banks
  __shared__ float tile_b[kDepth][kTile];
  const int t = static_cast<int>(threadIdx.x), tx = t % 16, ty = t / 16;
  const int row0 = static_cast<int>(blockIdx.y) * kTile, column0 = static_cast<int>(blockIdx.x) * kTile;
  float sum[kEach][kEach] = {};
  for (int k0 = 0; k0 < n; k0 += kDepth) {
#pragma unroll
    for (int l = 0; l < kLoads; ++l) {
      const int at = t + 256 * l;
      tile_a[at % kDepth][at / kDepth] = a[(row0 + at / kDepth) * n + k0 + at % kDepth];
      tile_b[at / kTile][at % kTile] = b[(k0 + at / kTile) * n + column0 + at % kTile];
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kDepth; ++k) {
      float from_a[kEach], from_b[kEach];
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        from_a[i] = tile_a[k][ty * kEach + i];
        from_b[i] = tile_b[k][tx + 16 * i];
      }
#pragma unroll
      for (int i = 0; i < kEach; ++i)
#pragma unroll
        for (int j = 0; j < kEach; ++j) sum[i][j] += from_a[i] * from_b[j];
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < kEach; ++i)
#pragma unroll
    for (int j = 0; j < kEach; ++j) c[(row0 + ty * kEach + i) * n + column0 + tx + 16 * j] = sum[i][j];
}

struct Product {
  const float *a, *b;
  int64_t n;
  __device__ double operator()(int64_t at) const {
    double sum = 0;
    for (int64_t k = 0; k < n; ++k) sum += static_cast<double>(a[at / n * n + k]) * b[k * n + at % n];
    return sum;
  }
};

void add(DeviceTrial& trial, const char* name, void (*kernel)(const float*, const float*, float*, int),
    const gpu::Extent& block, int64_t tile, const Slot<float> (&abc)[3], int64_t n) {
  trial.variant(name, [=, a = abc[0], b = abc[1], c = abc[2]](const At& at) {
    gpu::launch({.kernel = name, .grid = {n / tile, n / tile}, .block = block, .numbers = {n}}, at.stream(),
        kernel, at[a], at[b], at[c], static_cast<int>(n));
  });
}

std::unique_ptr<Trial> make(const Setup& setup) {
  const int64_t n = setup.dim(0);  // a multiple of 128
  auto trial = std::make_unique<DeviceTrial>(setup);
  const Slot<float> abc[3] = {
      trial->input<float>(n * n), trial->input<float>(n * n), trial->output<float>(n * n)};
  // Products of numbers in [-1, 1): F32 sums of n of them wander by about sqrt(n) of 2^-24 * sqrt(n) / 3.
  trial->expect<Product>(
      abc[2], {.absolute = 1e-6 * static_cast<double>(n)}, [=, a = abc[0], b = abc[1]](const At& at) {
        return Product{at[a], at[b], n};
      });
  const double cubed = 1.0 * n * n * n;
  trial->set_cost({.flops = 2 * cubed, .bytes = 12.0 * n * n, .roof = Roof::kFp32});
  add(*trial, "naive-down", naive<false>, {32, 32}, 32, abc, n);
  add(*trial, "naive-across", naive<true>, {32, 32}, 32, abc, n);
  add(*trial, "tile-16", tiled<16>, {16, 16}, 16, abc, n);
  add(*trial, "tile-32", tiled<32>, {32, 32}, 32, abc, n);
  add(*trial, "registers-64", register_tiled<64>, {256}, 64, abc, n);
  add(*trial, "registers-128", register_tiled<128>, {256}, 128, abc, n);
  return trial;
}

const Registered kMatmulTiling({
    .id = "ch07/matmul-tiling",
    .title = "Matrix product, from naive to register tiles",
    .question =
        "Which step of reuse makes an F32 matrix product fast: coalescing, shared tiles or register tiles?",
    .mechanism =
        "The naive kernel asks L1 for 8 bytes a multiply-add; a tile of T in shared memory divides global "
        "traffic by "
        "T but still reads 8 bytes of shared memory a multiply-add; register tiles divide that as well, and "
        "only then is the multiply-add pipe the limit.",
    .claim = {.text = "A 32 x 32 tile in shared memory takes 15 to 170 GFLOP/s at n = 1024 (any current card "
                      "does far more with the naive kernel).",
        .variant = "tile-32",
        .speedup = 11},
    .variants = {{"naive-down", "lanes walk down a column of C: uncoalesced"},
        {"naive-across", "lanes walk along a row of C"}, {"tile-16", "16 x 16 tiles in shared memory"},
        {"tile-32", "32 x 32 tiles in shared memory"},
        {"registers-64", "64 x 64 tiles, 4 x 4 outputs a thread"},
        {"registers-128", "128 x 128 tiles, 8 x 8 outputs a thread"}},
    .sizes = sizes_of({512, 1024, 2048}),
    .make = make,
});

}  // namespace
}  // namespace cheetah::lab
