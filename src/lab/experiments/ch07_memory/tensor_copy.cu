// SPDX-License-Identifier: MIT
// Tiles of a matrix: rows of the tile lie far apart in memory, and a tensor map knows how far.
#include "gpu/tensor_map.h"
#include "lab/experiments/async_copy.cuh"
#include "lab/experiments/device_trial.cuh"

namespace cheetah::lab {
namespace {

constexpr int kThreads = 256;
constexpr int kWidth = 64, kHeight = 32;  // a tile: 8 KB of floats
constexpr int kTile = kWidth * kHeight;
constexpr int kQuads = kTile / 4, kRowQuads = kWidth / 4;
constexpr uint32_t kTileBytes = kTile * sizeof(float);
constexpr int kBlocksPerSm = 2;

struct MatrixArgs {
  const float* in;
  float* out;
  int64_t n;  // rows and columns
};

struct Corner {  // of a tile
  int64_t x, y;
};
__device__ Corner corner_of(const MatrixArgs& args, int64_t t) {
  const int64_t across = args.n / kWidth;
  return {t % across * kWidth, t / across * kHeight};
}
__device__ int64_t offset_of(const MatrixArgs& args, const Corner& corner, int q) {
  return (corner.y + q / kRowQuads) * args.n + corner.x + q % kRowQuads * 4;
}

// Each tile is turned by 180 degrees in its place, so that threads need each other's loads.
__device__ void write_turned(const float4* tile, const MatrixArgs& args, const Corner& corner) {
  for (int q = static_cast<int>(threadIdx.x); q < kQuads; q += kThreads) {
    const float4 v = tile[kQuads - 1 - q];
    *reinterpret_cast<float4*>(args.out + offset_of(args, corner, q)) = {v.w, v.z, v.y, v.x};
  }
}

__global__ __launch_bounds__(kThreads) void load_then_write(const MatrixArgs args, int64_t tiles) {
  __shared__ float4 tile[kQuads];
  for (int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
    const Corner corner = corner_of(args, t);
    for (int q = static_cast<int>(threadIdx.x); q < kQuads; q += kThreads)
      tile[q] = *reinterpret_cast<const float4*>(args.in + offset_of(args, corner, q));
    __syncthreads();
    write_turned(tile, args, corner);
    __syncthreads();
  }
}

template <int kStages>
__global__ __launch_bounds__(kThreads) void thread_copies(const MatrixArgs args, int64_t tiles) {
  extern __shared__ __align__(128) float4 ring[];
  const auto start = [&](int64_t t, int slot) {
    if (t < tiles) {
      const Corner corner = corner_of(args, t);
      for (int q = static_cast<int>(threadIdx.x); q < kQuads; q += kThreads)
        ptx::copy_16_async(ring + slot * kQuads + q, args.in + offset_of(args, corner, q));
    }
    ptx::commit_copies();
  };
  for (int s = 0; s < kStages; ++s) start(blockIdx.x + static_cast<int64_t>(s) * gridDim.x, s);
  int slot = 0;
  for (int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
    ptx::wait_copies<kStages - 1>();
    __syncthreads();
    write_turned(ring + slot * kQuads, args, corner_of(args, t));
    __syncthreads();
    start(t + static_cast<int64_t>(kStages) * gridDim.x, slot);
    slot = slot + 1 == kStages ? 0 : slot + 1;
  }
}

template <int kStages>
__global__ __launch_bounds__(kThreads) void tensor_copies(
    const __grid_constant__ gpu::TensorMap map, const MatrixArgs args, int64_t tiles) {
  extern __shared__ __align__(128) float4 ring[];
  __shared__ uint64_t full[kStages];
  const auto start = [&](int64_t t, int slot) {
    if (threadIdx.x != 0 || t >= tiles) return;
    const Corner corner = corner_of(args, t);
    ptx::barrier_expect_bytes(&full[slot], kTileBytes);
    ptx::copy_box_2d(ring + slot * kQuads, &map, static_cast<int>(corner.x), static_cast<int>(corner.y),
        &full[slot], ptx::kEvictFirst);
  };
  if (threadIdx.x == 0) {
    ptx::prefetch_map(&map);
    for (uint64_t& barrier : full) ptx::barrier_init(&barrier, 1);
    ptx::fence_barrier_init();
  }
  __syncthreads();
  for (int s = 0; s < kStages; ++s) start(blockIdx.x + static_cast<int64_t>(s) * gridDim.x, s);
  int slot = 0;
  uint32_t parity = 0;
  for (int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
    ptx::barrier_wait(&full[slot], parity);
    write_turned(ring + slot * kQuads, args, corner_of(args, t));
    __syncthreads();
    start(t + static_cast<int64_t>(kStages) * gridDim.x, slot);
    if (++slot == kStages) {
      slot = 0;
      parity ^= 1;
    }
  }
}

struct Turned {
  const float* in;
  int64_t n;
  __device__ double operator()(int64_t i) const {
    const int64_t x = i % n, y = i / n;
    return in[(y / kHeight * kHeight + kHeight - 1 - y % kHeight) * n + x / kWidth * kWidth + kWidth - 1 -
              x % kWidth];
  }
};

gpu::TensorMap map_of(const float* in, int64_t n) {
  return gpu::make_tensor_map(in, {.element = gpu::TensorElement::kF32,
                                      .rank = 2,
                                      .dims = {n, n},
                                      .strides = {n * static_cast<int64_t>(sizeof(float))},
                                      .box = {kWidth, kHeight},
                                      .swizzle = gpu::Swizzle::kNone});
}

std::unique_ptr<Trial> make(const Setup& setup) {
  const int64_t n = setup.dim(0);  // a multiple of 64
  auto trial = std::make_unique<DeviceTrial>(setup);
  const auto in = trial->input<float>(n * n);
  const auto out = trial->output<float>(n * n);
  trial->expect<Turned>(out, [=](const At& at) { return Turned{at[in], n}; });
  trial->set_cost({.bytes = 8.0 * n * n});
  const int64_t tiles = n * n / kTile;
  const int64_t blocks = std::min<int64_t>(tiles, setup.stream->device().num_sms * kBlocksPerSm);
  const auto config = [=](const char* name, int stages) {
    return gpu::LaunchConfig{.kernel = name,
        .grid = {blocks},
        .block = {kThreads},
        .shared_bytes = static_cast<int64_t>(stages) * kTileBytes};
  };
  const auto add_plain = [&](const char* name, void (*kernel)(const MatrixArgs, int64_t), int stages) {
    trial->variant(name, [=](const At& at) {
      gpu::launch(config(name, stages), at.stream(), kernel, MatrixArgs{at[in], at[out], n}, tiles);
    });
  };
  const auto add_tensor = [&](const char* name,
                              void (*kernel)(const gpu::TensorMap, const MatrixArgs, int64_t), int stages) {
    trial->variant(name, [=](const At& at) {
      gpu::launch(config(name, stages), at.stream(), kernel, map_of(at[in], n),
          MatrixArgs{at[in], at[out], n}, tiles);
    });
  };
  add_plain("load-then-write", load_then_write, 0);
  add_plain("cp-async-2", thread_copies<2>, 2);
  add_plain("cp-async-4", thread_copies<4>, 4);
  add_tensor("tensor-1", tensor_copies<1>, 1);
  add_tensor("tensor-2", tensor_copies<2>, 2);
  add_tensor("tensor-4", tensor_copies<4>, 4);
  return trial;
}

const Registered kTensorCopy({
    .id = "ch07/tensor-copy",
    .title = "Matrix tiles with tensor copies",
    .question =
        "Do tensor copies fetch 64 x 32 tiles of a matrix faster than threads that compute every address?",
    .mechanism =
        "The copy engine walks the 32 rows of a box from a descriptor: one instruction replaces 512 copies "
        "and their "
        "addresses. With equal stages both keep the same bytes in flight, so the gain is issue slots.",
    .claim = {.text = "The copy engine moves 1D to 5D tiles of any stride without issue slots of the SM; "
                      "prefetching with it takes 18 to 7 ms.",
        .variant = "tensor-2",
        .speedup = 2.6},
    .min_compute = 90,
    .variants = {{"load-then-write", "loads through registers, barrier, write"},
        {"cp-async-2", "asynchronous copies by every thread, one tile ahead"},
        {"cp-async-4", "three tiles ahead"}, {"tensor-1", "tensor copies, waited for at once"},
        {"tensor-2", "one tile ahead"}, {"tensor-4", "three tiles ahead"}},
    .sizes = sizes_of({1024, 4096, 16384}),
    .make = make,
});

}  // namespace
}  // namespace cheetah::lab
