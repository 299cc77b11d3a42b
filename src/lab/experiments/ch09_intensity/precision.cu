// SPDX-License-Identifier: MIT
// One product in every number format the chip multiplies. The tensor-core kernel is the same for all: tiles
// of 128 x 256 outputs and 128 bytes of K a step, so that a narrower type only means more of K in the same
// bytes. Inputs are small whole numbers, exact in every format, so that all must agree with the oracle.
//
// C [n, n] f32 = A B^T, A and B [n, n], K innermost. FLOPs: 2 n^3. Bytes: 2 n^2 of the type + 4 n^2.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "gpu/launch.cuh"
#include "gpu/ptx.cuh"
#include "gpu/tensor_map.h"
#include "gpu/wgmma.cuh"
#include "lab/array_trial.h"
#include "lab/experiments/device_scratch.h"

namespace cheetah::lab {
namespace {

// wgmma m64n256: 128 sums per thread. The instructions differ in K, types and trailing immediates only.
#define CHEETAH_SUMS                                                                             \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                       \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "             \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "             \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "             \
  "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "             \
  "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "             \
  "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
  "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define CHEETAH_4(c, i) c(d[i]), c(d[(i) + 1]), c(d[(i) + 2]), c(d[(i) + 3])
#define CHEETAH_16(c, i) CHEETAH_4(c, i), CHEETAH_4(c, (i) + 4), CHEETAH_4(c, (i) + 8), CHEETAH_4(c, (i) + 12)
#define CHEETAH_64(c, i) \
  CHEETAH_16(c, i), CHEETAH_16(c, (i) + 16), CHEETAH_16(c, (i) + 32), CHEETAH_16(c, (i) + 48)
#define CHEETAH_PRODUCT(types, c, tail)                                                                \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\nwgmma.mma_async.sync.aligned.m64n256" types \
               " {" CHEETAH_SUMS "}, %128, %129, p" tail ";\n}"                                        \
               : CHEETAH_64(c, 0), CHEETAH_64(c, 64)                                                   \
               : "l"(a), "l"(b), "r"(accumulate))

struct Tf32 {
  using Number = float;
  using Sum = float;
  static constexpr gpu::TensorElement kElement = gpu::TensorElement::kF32;
  __device__ static Number of(float v) { return v; }
  __device__ static void add(Sum (&d)[128], uint64_t a, uint64_t b, int accumulate) {
    CHEETAH_PRODUCT("k8.f32.tf32.tf32", "+f", ", 1, 1");
  }
};
struct F16 {
  using Number = __half;
  using Sum = float;
  static constexpr gpu::TensorElement kElement = gpu::TensorElement::kF16;
  __device__ static Number of(float v) { return __float2half(v); }
  __device__ static void add(Sum (&d)[128], uint64_t a, uint64_t b, int accumulate) {
    wgmma::Product<wgmma::Input::kF16, 256>::add(d, a, b, accumulate);
  }
};
struct Bf16 {
  using Number = __nv_bfloat16;
  using Sum = float;
  static constexpr gpu::TensorElement kElement = gpu::TensorElement::kBF16;
  __device__ static Number of(float v) { return __float2bfloat16(v); }
  __device__ static void add(Sum (&d)[128], uint64_t a, uint64_t b, int accumulate) {
    wgmma::Product<wgmma::Input::kBf16, 256>::add(d, a, b, accumulate);
  }
};
struct Fp8 {
  using Number = __nv_fp8_e4m3;
  using Sum = float;
  static constexpr gpu::TensorElement kElement = gpu::TensorElement::kU8;
  __device__ static Number of(float v) { return Number(v); }
  __device__ static void add(Sum (&d)[128], uint64_t a, uint64_t b, int accumulate) {
    CHEETAH_PRODUCT("k32.f32.e4m3.e4m3", "+f", ", 1, 1");
  }
};
struct Int8 {
  using Number = int8_t;
  using Sum = int32_t;
  static constexpr gpu::TensorElement kElement = gpu::TensorElement::kU8;
  __device__ static Number of(float v) { return static_cast<Number>(v); }
  __device__ static void add(Sum (&d)[128], uint64_t a, uint64_t b, int accumulate) {
    CHEETAH_PRODUCT("k32.s32.s8.s8", "+r", "");
  }
};

constexpr int kTileM = 128, kTileN = 256, kRowBytes = 128, kStages = 4, kThreads = 384;
constexpr int kABytes = kTileM * kRowBytes, kStageBytes = kABytes + kTileN * kRowBytes;
constexpr int kSmemBytes = kStages * kStageBytes + 1024;

struct Pipe {
  uint64_t full[kStages], empty[kStages];
};

template <class F>
__device__ void multiply(unsigned char* smem, Pipe& pipe, float* c, int n, int steps) {
  const int group = threadIdx.x / 128 - 1, warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
  typename F::Sum sums[128];
  for (int k = 0; k < steps; ++k) {
    const int stage = k % kStages;
    ptx::barrier_wait(&pipe.full[stage], (k / kStages) & 1);
    wgmma::fence();
    const uint32_t at = ptx::shared_address(smem + stage * kStageBytes);
    const uint64_t a = wgmma::descriptor(at + group * 64 * kRowBytes), b = wgmma::descriptor(at + kABytes);
#pragma unroll
    for (int i = 0; i < 4; ++i) F::add(sums, a + i * 2, b + i * 2, k | i);
    wgmma::commit();
    wgmma::wait<1>();
    if (k > 0 && threadIdx.x % 128 == 0) ptx::barrier_arrive(&pipe.empty[(k - 1) % kStages]);
  }
  wgmma::wait<0>();
  // The conversions of integer sums must not move above the wait.
  if constexpr (std::is_same_v<typename F::Sum, int32_t>)
#pragma unroll
    for (int32_t& sum : sums) asm volatile("" : "+r"(sum));
  const int64_t row = blockIdx.y * kTileM + group * 64 + warp * 16 + lane / 4;
  float* at = c + row * n + blockIdx.x * kTileN + lane % 4 * 2;
#pragma unroll
  for (int j = 0; j < kTileN / 8; ++j)
#pragma unroll
    for (int half = 0; half < 2; ++half)
      *reinterpret_cast<float2*>(at + int64_t{half} * 8 * n + j * 8) = make_float2(
          static_cast<float>(sums[j * 4 + half * 2]), static_cast<float>(sums[j * 4 + half * 2 + 1]));
}

template <class F>
__global__ __launch_bounds__(kThreads, 1) void product(const __grid_constant__ gpu::TensorMap a_map,
    const __grid_constant__ gpu::TensorMap b_map, float* c, int n) {
  extern __shared__ unsigned char raw[];
  unsigned char* smem = ptx::align_shared(raw, 1024);
  __shared__ Pipe pipe;
  constexpr int kPerStep = kRowBytes / static_cast<int>(sizeof(typename F::Number));
  const int steps = n / kPerStep;
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      ptx::barrier_init(&pipe.full[s], 1);
      ptx::barrier_init(&pipe.empty[s], 2);
    }
    ptx::fence_barrier_init();
  }
  __syncthreads();
  if (threadIdx.x >= 128) {
    ptx::take_registers<232>();
    multiply<F>(smem, pipe, c, n, steps);
    return;
  }
  ptx::give_registers<40>();
  if (threadIdx.x != 0) return;
  for (int k = 0; k < steps; ++k) {
    const int stage = k % kStages;
    unsigned char* to = smem + stage * kStageBytes;
    ptx::barrier_wait(&pipe.empty[stage], ((k / kStages) & 1) ^ 1);
    ptx::barrier_expect_bytes(&pipe.full[stage], kStageBytes);
    ptx::copy_box_2d(to, &a_map, k * kPerStep, blockIdx.y * kTileM, &pipe.full[stage], ptx::kEvictLast);
    ptx::copy_box_2d(
        to + kABytes, &b_map, k * kPerStep, blockIdx.x * kTileN, &pipe.full[stage], ptx::kEvictLast);
  }
}

// F32 on the ordinary cores: 128 x 128 outputs a block, 8 x 8 per thread.
__global__ __launch_bounds__(256) void product_f32(const float* a, const float* b, float* c, int n) {
  __shared__ __align__(16) float tile_a[8][132], tile_b[8][132];
  const int t = threadIdx.x, row = t / 16 * 4, column = t % 16 * 4;
  float sums[8][8] = {};
  for (int k = 0; k < n; k += 8) {
    const float4 va =
        *reinterpret_cast<const float4*>(a + int64_t{blockIdx.y * 128 + t / 2} * n + k + t % 2 * 4);
    const float4 vb =
        *reinterpret_cast<const float4*>(b + int64_t{blockIdx.x * 128 + t / 2} * n + k + t % 2 * 4);
    __syncthreads();
    const float wa[4] = {va.x, va.y, va.z, va.w}, wb[4] = {vb.x, vb.y, vb.z, vb.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      tile_a[t % 2 * 4 + i][t / 2] = wa[i];
      tile_b[t % 2 * 4 + i][t / 2] = wb[i];
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      float x[8], y[8];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        *reinterpret_cast<float4*>(x + half * 4) =
            *reinterpret_cast<const float4*>(&tile_a[i][row + half * 64]);
        *reinterpret_cast<float4*>(y + half * 4) =
            *reinterpret_cast<const float4*>(&tile_b[i][column + half * 64]);
      }
#pragma unroll
      for (int p = 0; p < 8; ++p)
#pragma unroll
        for (int q = 0; q < 8; ++q) sums[p][q] = fmaf(x[p], y[q], sums[p][q]);
    }
  }
#pragma unroll
  for (int p = 0; p < 8; ++p)
#pragma unroll
    for (int half = 0; half < 2; ++half)
      *reinterpret_cast<float4*>(c + int64_t{blockIdx.y * 128 + row + p % 4 + p / 4 * 64} * n +
                                 blockIdx.x * 128 + column + half * 64) =
          *reinterpret_cast<const float4*>(&sums[p][half * 4]);
}

__global__ __launch_bounds__(1024) void exact(const float* a, const float* b, float* c, int n) {
  __shared__ float tile_a[32][33], tile_b[32][33];
  const int64_t row = blockIdx.y * 32 + threadIdx.y;
  float sum = 0.f;  // whole numbers below 2^24
  for (int k = 0; k < n; k += 32) {
    tile_a[threadIdx.y][threadIdx.x] = a[row * n + k + threadIdx.x];
    tile_b[threadIdx.y][threadIdx.x] = b[int64_t{blockIdx.x * 32 + threadIdx.y} * n + k + threadIdx.x];
    __syncthreads();
    for (int i = 0; i < 32; ++i) sum += tile_a[threadIdx.y][i] * tile_b[threadIdx.x][i];
    __syncthreads();
  }
  c[row * n + blockIdx.x * 32 + threadIdx.x] = sum;
}

template <class F>
__global__ void convert(const float* from, typename F::Number* to, int64_t count) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count) to[i] = F::of(from[i]);
}

template <class F>
gpu::TensorMap map_of(const void* data, int64_t n, int rows) {
  constexpr int64_t kSize = sizeof(typename F::Number);
  return gpu::make_tensor_map(data, {.element = F::kElement,
                                        .rank = 2,
                                        .dims = {n, n},
                                        .strides = {n * kSize},
                                        .box = {static_cast<int>(kRowBytes / kSize), rows}});
}

struct Arrays {
  Array<float> a, b, c;
  std::shared_ptr<int> generation;  // counts fills
  int64_t n;
};

template <class F>
void add_variant(const Setup& setup, ArrayTrial& trial, const char* name, const Arrays& arrays) {
  using Number = typename F::Number;
  const int64_t n = arrays.n, count = n * n;
  const DeviceScratch<Number> a(setup, count), b(setup, count);
  const auto converted = std::make_shared<int>(-1);
  trial.set_cost(name, {.flops = 2.0 * n * n * n,
                           .bytes = count * (2.0 * sizeof(Number) + 4),
                           .roof = sizeof(Number) == 1 ? Roof::kTensorFp8 : Roof::kTensorBf16});
  trial.variant(name, [=](const Launch& at) {
    if (*converted != *arrays.generation) {  // the first launch after new inputs, never a timed one
      *converted = *arrays.generation;
      const gpu::Extent grid = {count / 256}, block = {256};
      gpu::launch({.kernel = "convert", .grid = grid, .block = block}, at.stream(), convert<F>, at[arrays.a],
          a.data(), count);
      gpu::launch({.kernel = "convert", .grid = grid, .block = block}, at.stream(), convert<F>, at[arrays.b],
          b.data(), count);
    }
    gpu::launch(
        {.kernel = name, .grid = {n / kTileN, n / kTileM}, .block = {kThreads}, .shared_bytes = kSmemBytes},
        at.stream(), product<F>, map_of<F>(a.data(), n, kTileM), map_of<F>(b.data(), n, kTileN), at[arrays.c],
        static_cast<int>(n));
  });
}

std::unique_ptr<Trial> make(const Setup& setup) {
  const int64_t n = setup.dim(0);
  auto trial = std::make_unique<ArrayTrial>(setup);
  const auto generation = std::make_shared<int>(0);
  const auto fill = [generation](std::span<float> values, uint64_t seed) {
    ++*generation;
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(static_cast<int>(uniform_at(seed, i) * 7) - 3);
  };
  const Arrays arrays{trial->input_from<float>("a", n * n, fill), trial->input_from<float>("b", n * n, fill),
      trial->output<float>("c", n * n), generation, n};
  trial->set_cost("f32", {.flops = 2.0 * n * n * n, .bytes = 12.0 * n * n, .roof = Roof::kFp32});
  trial->device_reference([=](const Launch& at) {
    gpu::launch({.kernel = "exact", .grid = {n / 32, n / 32}, .block = {32, 32}}, at.stream(), exact,
        at[arrays.a], at[arrays.b], at[arrays.c], static_cast<int>(n));
  });
  trial->variant("f32", [=](const Launch& at) {
    gpu::launch({.kernel = "product_f32", .grid = {n / 128, n / 128}, .block = {256}}, at.stream(),
        product_f32, at[arrays.a], at[arrays.b], at[arrays.c], static_cast<int>(n));
  });
  add_variant<Tf32>(setup, *trial, "tf32", arrays);
  add_variant<F16>(setup, *trial, "f16", arrays);
  add_variant<Bf16>(setup, *trial, "bf16", arrays);
  add_variant<Fp8>(setup, *trial, "fp8", arrays);
  add_variant<Int8>(setup, *trial, "int8", arrays);
  return trial;
}

const Registered kPrecision({
    .id = "ch09/precision-sweep",
    .title = "One product in F32, TF32, F16, BF16, FP8 and INT8",
    .question = "What does each step down in precision bring for a square product?",
    .mechanism =
        "The tensor cores take 32 bytes of K a step whatever the type, so each halving of the type doubles "
        "the "
        "operations per step and halves the traffic; F32 itself runs on the ordinary cores. Small products are "
        "bound by waves and latency and gain less.",
    .claim = {.text =
                  "16-bit tensor-core peak is about 4 times F32's; FP8 gives 2 to 3 times the 16-bit rate.",
        .variant = "bf16",
        .speedup = 4},
    .rotation = Rotation::kHot,
    .min_compute = 90,
    .variants = {{.name = "f32", .idea = "multiply-adds on the ordinary cores, 8 x 8 per thread"},
        {.name = "tf32", .idea = "tensor cores, 4-byte numbers with 10 bits of mantissa"},
        {.name = "f16", .idea = "tensor cores, F32 sums"}, {.name = "bf16", .idea = "tensor cores, F32 sums"},
        {.name = "fp8", .idea = "tensor cores, E4M3"},
        {.name = "int8", .idea = "tensor cores, 32-bit integer sums"}},
    .sizes = sizes_of({1024, 4096}),
    .quick = sizes_of({1024}),
    .tolerance = {.relative = 1e-3, .absolute = 0.5},
    .make = make,
});

}  // namespace
}  // namespace cheetah::lab
