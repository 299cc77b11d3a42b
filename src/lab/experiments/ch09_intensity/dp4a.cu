// SPDX-License-Identifier: MIT
// y = W x for one token: F32 weights, 8-bit weights widened one by one, and four 8-bit products an
// instruction. And the same dot products where memory does not matter. Whole numbers throughout, so that
// every variant must agree exactly.
#include <array>

#include "gpu/launch.cuh"
#include "kernels/cuda/reduce.cuh"
#include "lab/array_trial.h"

namespace cheetah::lab {
namespace {

constexpr int kThreads = 256, kColumns = 4096, kWarps = kThreads / 32;

// One warp per row, 16 bytes a lane and step.
__global__ __launch_bounds__(kThreads) void rows_f32(const float* w, const float* x, float* y) {
  const int64_t row = int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  const auto* from = reinterpret_cast<const float4*>(w + row * kColumns);
  float sum = 0.f;
#pragma unroll 8
  for (int i = threadIdx.x % 32; i < kColumns / 4; i += 32) {
    const float4 a = from[i], b = reinterpret_cast<const float4*>(x)[i];
    sum += a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
  }
  sum = gpu::warp_sum(sum);
  if (threadIdx.x % 32 == 0) y[row] = sum;
}

__device__ inline float widened_dot(int a, int b) {
  float sum = 0.f;
#pragma unroll
  for (int i = 0; i < 4; ++i)
    sum += static_cast<float>(static_cast<int8_t>(a >> (8 * i))) *
           static_cast<float>(static_cast<int8_t>(b >> (8 * i)));
  return sum;
}
struct Widened {
  using Sum = float;
  __device__ static Sum add(Sum sum, int a, int b) { return sum + widened_dot(a, b); }
};
struct Dp4a {
  using Sum = int;
  __device__ static Sum add(Sum sum, int a, int b) { return __dp4a(a, b, sum); }
};

template <class Dot>
__global__ __launch_bounds__(kThreads) void rows_int8(const int4* w, const int4* x, float* y) {
  const int64_t row = int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  const int4* from = w + row * (kColumns / 16);
  typename Dot::Sum sum = 0;
#pragma unroll
  for (int i = threadIdx.x % 32; i < kColumns / 16; i += 32) {
    const int4 a = from[i], b = x[i];
    sum = Dot::add(Dot::add(Dot::add(Dot::add(sum, a.x, b.x), a.y, b.y), a.z, b.z), a.w, b.w);
  }
  const float all = gpu::warp_sum(static_cast<float>(sum));
  if (threadIdx.x % 32 == 0) y[row] = all;
}

std::unique_ptr<Trial> make_rows(const Setup& setup) {
  const int64_t rows = setup.dim(0);
  auto trial = std::make_unique<ArrayTrial>(setup);
  // The wide arrays hold the numbers of the narrow ones: arrays of a set are filled in this order.
  const auto seeds = std::make_shared<std::array<uint64_t, 2>>();
  const auto narrow = [seeds](size_t which) {
    return [seeds, which](std::span<int8_t> values, uint64_t seed) {
      (*seeds)[which] = seed;
      for (size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<int8_t>(uniform_at(seed, i) * 17 - 8);
    };
  };
  const auto wide = [seeds](size_t which) {
    return [seeds, which](std::span<float> values, uint64_t) {
      for (size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<float>(static_cast<int8_t>(uniform_at((*seeds)[which], i) * 17 - 8));
    };
  };
  const auto w8 = trial->input_from<int8_t>("w8", rows * kColumns, narrow(0));
  const auto x8 = trial->input_from<int8_t>("x8", kColumns, narrow(1));
  const auto w = trial->input_from<float>("w", rows * kColumns, wide(0));
  const auto x = trial->input_from<float>("x", kColumns, wide(1));
  const auto y = trial->output<float>("y", rows);
  trial->set_cost({.flops = 2.0 * rows * kColumns, .bytes = 1.0 * rows * kColumns, .roof = Roof::kDramRead});
  trial->set_cost(
      "f32", {.flops = 2.0 * rows * kColumns, .bytes = 4.0 * rows * kColumns, .roof = Roof::kDramRead});
  trial->reference([=](const HostArrays& host) {
    for (size_t row = 0; row < host[y].size(); ++row) {
      int sum = 0;
      for (size_t i = 0; i < kColumns; ++i) sum += host[w8][row * kColumns + i] * host[x8][i];
      host[y][row] = static_cast<float>(sum);
    }
  });
  const gpu::Extent grid = {rows / kWarps}, block = {kThreads};
  trial->variant("f32", [=](const Launch& at) {
    gpu::launch(
        {.kernel = "rows_f32", .grid = grid, .block = block}, at.stream(), rows_f32, at[w], at[x], at[y]);
  });
  const auto add = [&](const char* name, auto kernel) {
    trial->variant(name, [=](const Launch& at) {
      gpu::launch({.kernel = name, .grid = grid, .block = block}, at.stream(), kernel,
          reinterpret_cast<const int4*>(at[w8]), reinterpret_cast<const int4*>(at[x8]), at[y]);
    });
  };
  add("int8-widened", rows_int8<Widened>);
  add("int8-dp4a", rows_int8<Dp4a>);
  return trial;
}

const Registered kRows({
    .id = "ch09/int8-gemv",
    .title = "One token's product with 8-bit weights",
    .question = "What do 8-bit weights bring for a matrix-vector product, and what does DP4A add?",
    .mechanism = "The product is bound by the bytes of W: a quarter of them takes a quarter of the time, if "
                 "the instructions to "
                 "widen each weight do not become the limit first; DP4A does four products in one.",
    .claim = {.text = "8-bit weights cut weight traffic by 75 %, about 4 times more elements per second.",
        .variant = "int8-dp4a",
        .speedup = 4},
    .variants = {{.name = "f32", .idea = "F32 weights, multiply-adds"},
        {.name = "int8-widened", .idea = "8-bit weights, each converted to F32"},
        {.name = "int8-dp4a", .idea = "8-bit weights, four products an instruction"}},
    .sizes = {{.label = "1024 x 4096", .dims = {1024}}, {.label = "16384 x 4096", .dims = {16384}}},
    .quick = {{.label = "1024 x 4096", .dims = {1024}}},
    .make = make_rows,
});

// The instruction itself: dot products over and over of what lies in registers.
constexpr int kPairs = 8;

template <class Dot>
__global__ __launch_bounds__(kThreads) void repeat_int8(const int* a, const int* b, float* y, int rounds) {
  const int t = blockIdx.x * kThreads + threadIdx.x;
  int x[kPairs], z[kPairs];
  typename Dot::Sum sums[kPairs] = {};
#pragma unroll
  for (int i = 0; i < kPairs; ++i) {
    x[i] = a[t * kPairs + i];
    z[i] = b[t * kPairs + i];
  }
  for (int round = 0; round < rounds; ++round)
#pragma unroll
    for (int i = 0; i < kPairs; ++i) sums[i] = Dot::add(sums[i], x[i], z[i] ^ (round & 1));
  float sum = 0.f;
#pragma unroll
  for (int i = 0; i < kPairs; ++i) sum += static_cast<float>(sums[i]);
  y[t] = sum;
}

std::unique_ptr<Trial> make_rate(const Setup& setup) {
  constexpr int kBlocks = 132 * 8;
  constexpr int64_t kCount = int64_t{kBlocks} * kThreads;
  const int rounds = static_cast<int>(setup.dim(0));
  auto trial = std::make_unique<ArrayTrial>(setup);
  const auto a = trial->input<int8_t>("a", kCount * kPairs * 4, -8, 8);
  const auto b = trial->input<int8_t>("b", kCount * kPairs * 4, -8, 8);
  const auto y = trial->output<float>("y", kCount);
  const double products = 4.0 * kPairs * rounds * kCount;
  trial->set_cost({.flops = 2 * products, .roof = Roof::kNone, .items = products, .item = "product"});
  trial->reference([=](const HostArrays& host) {
    for (size_t t = 0; t < host[y].size(); ++t) {
      int64_t even = 0, odd = 0;  // byte 0's lowest bit is flipped in odd rounds
      for (size_t i = t * kPairs * 4; i < (t + 1) * kPairs * 4; ++i) {
        even += host[a][i] * host[b][i];
        odd += host[a][i] * (i % 4 == 0 ? static_cast<int8_t>(host[b][i] ^ 1) : host[b][i]);
      }
      host[y][t] = static_cast<float>(even * ((rounds + 1) / 2) + odd * (rounds / 2));
    }
  });
  const auto add = [&](const char* name, auto kernel) {
    trial->variant(name, [=](const Launch& at) {
      gpu::launch({.kernel = name, .grid = {kBlocks}, .block = {kThreads}}, at.stream(), kernel,
          reinterpret_cast<const int*>(at[a]), reinterpret_cast<const int*>(at[b]), at[y], rounds);
    });
  };
  add("widened", repeat_int8<Widened>);
  add("dp4a", repeat_int8<Dp4a>);
  return trial;
}

const Registered kRate({
    .id = "ch09/dp4a-rate",
    .title = "DP4A against widened multiply-adds",
    .question = "How many times faster does DP4A multiply 8-bit numbers that are in registers already?",
    .mechanism = "A widened product needs conversions and a multiply-add each, DP4A a quarter of an "
                 "instruction, though it "
                 "issues at half the rate of multiply-adds.",
    .claim = {.text = "DP4A does four 8-bit multiply-adds per instruction against one in F32.",
        .variant = "dp4a",
        .speedup = 4},
    .variants = {{.name = "widened", .idea = "four conversions a side, four multiply-adds"},
        {.name = "dp4a", .idea = "one instruction"}},
    .sizes = {{.label = "256 rounds", .dims = {256}}, {.label = "2048 rounds", .dims = {2048}}},
    .quick = {{.label = "256 rounds", .dims = {256}}},
    .make = make_rate,
});

}  // namespace
}  // namespace cheetah::lab
