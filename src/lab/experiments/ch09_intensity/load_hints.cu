// SPDX-License-Identifier: MIT
// How a load is written: cache hints for data read once beside data read often, the address arithmetic, the
// order of loads and uses, and prefetches into the second-level cache.
#include "gpu/launch.cuh"
#include "gpu/ptx.cuh"
#include "lab/array_trial.h"

namespace cheetah::lab {
namespace {

constexpr int kThreads = 256;

struct Plain {
  __device__ static float4 load(const float4* p) { return *p; }
};
struct ReadOnly {
  __device__ static float4 load(const float4* p) { return __ldg(p); }
};
struct L2Only {  // ld.global.cg
  __device__ static float4 load(const float4* p) { return __ldcg(p); }
};
struct Streaming {  // ld.global.cs: first to be evicted
  __device__ static float4 load(const float4* p) { return __ldcs(p); }
};
struct NoAllocate {
  __device__ static float4 load(const float4* p) {
    float4 v;
    asm volatile("ld.global.nc.L1::no_allocate.L2::256B.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                 : "l"(p));
    return v;
  }
};

// A long array read once, and a table of 64 KiB that should stay in L1: y[i] = sum over the array's four x
// times the table's value at an index that depends on i.
constexpr int kTable = 16384;

template <class Load>
__global__ __launch_bounds__(kThreads) void scale_by_table(
    const float4* x, const float* table, float* y, int64_t n4) {
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < n4; i += step) {
    const float4 v = Load::load(x + i);
    const uint32_t at = static_cast<uint32_t>(i) * 2654435761u;
    y[i] = v.x * table[at % kTable] + v.y * table[(at >> 7) % kTable] + v.z * table[(at >> 13) % kTable] +
           v.w * table[(at >> 18) % kTable];
  }
}

std::unique_ptr<Trial> make_hints(const Setup& setup) {
  const int64_t n4 = setup.dim(0) / 4;
  auto trial = std::make_unique<ArrayTrial>(setup);
  const auto x = trial->input<float>("x", n4 * 4);
  const auto table = trial->input<float>("table", kTable);
  const auto y = trial->output<float>("y", n4);
  trial->set_cost({.flops = 7.0 * n4, .bytes = 20.0 * n4, .roof = Roof::kDramRead});
  trial->reference([=](const HostArrays& host) {
    const auto values = host[table];
    for (size_t i = 0; i < host[y].size(); ++i) {
      const uint32_t at = static_cast<uint32_t>(i) * 2654435761u;
      const auto v = host[x].subspan(i * 4, 4);
      host[y][i] = v[0] * values[at % kTable] + v[1] * values[(at >> 7) % kTable] +
                   v[2] * values[(at >> 13) % kTable] + v[3] * values[(at >> 18) % kTable];
    }
  });
  const auto add = [&](const char* name, auto kernel) {
    trial->variant(name, [=](const Launch& at) {
      gpu::launch({.kernel = name, .grid = {int64_t{at.stream().device().num_sms} * 8}, .block = {kThreads}},
          at.stream(), kernel, reinterpret_cast<const float4*>(at[x]), at[table], at[y], n4);
    });
  };
  add("plain", scale_by_table<Plain>);
  add("read-only", scale_by_table<ReadOnly>);
  add("l2-only", scale_by_table<L2Only>);
  add("streaming", scale_by_table<Streaming>);
  add("no-allocate", scale_by_table<NoAllocate>);
  return trial;
}

const Registered kHints({
    .id = "ch09/load-hints",
    .title = "Cache hints on loads of data read once",
    .question = "Does keeping a stream out of L1 protect a table that lives there?",
    .mechanism = "Plain loads allocate lines of L1 that are never used again and may push the table out; "
                 "loads past L1 leave it "
                 "there. The table misses to L2, not to memory, so the gain is bounded by L1's miss traffic.",
    .claim = {.text = "Non-coherent loads without L1 allocation and with 256-byte L2 pieces help DeepEP "
                      "significantly; no "
                      "number is given."},
    .min_compute = 90,
    .variants = {{.name = "plain", .idea = "ld.global, cached everywhere"},
        {.name = "read-only", .idea = "ld.global.nc, the read-only path"},
        {.name = "l2-only", .idea = "ld.global.cg, not in L1"},
        {.name = "streaming", .idea = "ld.global.cs, evicted first"},
        {.name = "no-allocate", .idea = "ld.global.nc.L1::no_allocate.L2::256B"}},
    .sizes = sizes_of({1 << 20, 1 << 24, 1 << 26}),
    .quick = sizes_of({1 << 20}),
    .tolerance = {.relative = 1e-4, .absolute = 1e-5},
    .make = make_hints,
});

// Address arithmetic by hand: rows gathered through an index, as the compiler writes it or as one wide
// multiply-add.
constexpr int kRowFloats = 128;

__global__ __launch_bounds__(kThreads) void gather_plain(
    const float* x, const uint32_t* rows, float* y, int n) {
  const int row = blockIdx.x * (kThreads / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= n) return;
  const float* from = x + int64_t{rows[row]} * kRowFloats;
#pragma unroll
  for (int i = 0; i < kRowFloats / 32; ++i)
    y[int64_t{row} * kRowFloats + i * 32 + lane] = from[i * 32 + lane] * 2.f;
}
__global__ __launch_bounds__(kThreads) void gather_by_hand(
    const float* x, const uint32_t* rows, float* y, int n) {
  const int row = blockIdx.x * (kThreads / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= n) return;
  uint64_t from;
  asm volatile("mad.wide.u32 %0, %1, %2, %3;"
               : "=l"(from)
               : "r"(rows[row]), "r"(static_cast<uint32_t>(kRowFloats * sizeof(float))), "l"(x + lane));
#pragma unroll
  for (int i = 0; i < kRowFloats / 32; ++i) {
    float v;
    asm volatile("ld.global.cg.f32 %0, [%1];" : "=f"(v) : "l"(from + i * 128u));
    y[int64_t{row} * kRowFloats + i * 32 + lane] = v * 2.f;
  }
}

std::unique_ptr<Trial> make_gather(const Setup& setup) {
  const int64_t n = setup.dim(0);
  auto trial = std::make_unique<ArrayTrial>(setup);
  const auto x = trial->input<float>("x", n * kRowFloats);
  const auto rows = trial->input<uint32_t>("rows", n, 0, static_cast<double>(n));
  const auto y = trial->output<float>("y", n * kRowFloats);
  // Rows are drawn with replacement: about 63 % of x is read.
  trial->set_cost(
      {.flops = 1.0 * n * kRowFloats, .bytes = n * (kRowFloats * 4.0 * 1.6 + 4), .roof = Roof::kDramRead});
  trial->reference([=](const HostArrays& host) {
    for (size_t i = 0; i < host[y].size(); ++i)
      host[y][i] = 2 * host[x][host[rows][i / kRowFloats] * size_t{kRowFloats} + i % kRowFloats];
  });
  const auto add = [&](const char* name, auto kernel) {
    trial->variant(name, [=](const Launch& at) {
      gpu::launch({.kernel = name, .grid = {n / (kThreads / 32)}, .block = {kThreads}}, at.stream(), kernel,
          at[x], at[rows], at[y], static_cast<int>(n));
    });
  };
  add("compiler", gather_plain);
  add("by-hand", gather_by_hand);
  return trial;
}

const Registered kGather({
    .id = "ch09/address-by-hand",
    .title = "Address arithmetic in PTX",
    .question = "Does one wide multiply-add and ld.global.cg beat what the compiler makes of the same loop?",
    .mechanism = "The compiler already forms addresses with wide multiply-adds and folds constant offsets "
                 "into loads; a gather "
                 "waits for memory, not for address arithmetic.",
    .claim = {.text = "A hypothetical loop goes from 1.07 to 1.00 ms with mad.wide and ld.global.cg.",
        .variant = "by-hand",
        .speedup = 1.07},
    .variants = {{.name = "compiler", .idea = "plain C++"},
        {.name = "by-hand", .idea = "mad.wide.u32 for the row, ld.global.cg for its pieces"}},
    .sizes = sizes_of({1 << 14, 1 << 17, 1 << 19}),
    .quick = sizes_of({1 << 14}),
    .make = make_gather,
});

// The order of loads and uses: four streams with a dependent chain on each value.
__device__ inline float ordered_load(const float* p) {  // stays where it stands
  float v;
  asm volatile("ld.global.f32 %0, [%1];" : "=f"(v) : "l"(p) : "memory");
  return v;
}
__device__ inline void ordered_add(float& sum, float v) {
  asm volatile("fma.rn.f32 %0, %1, %1, %0;" : "+f"(sum) : "f"(v));
}

constexpr int kStreams = 4;

__global__ __launch_bounds__(kThreads) void use_each(const float* x, float* y, int64_t n) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  float sum = 0.f;
#pragma unroll
  for (int s = 0; s < kStreams; ++s) ordered_add(sum, ordered_load(x + s * n + i));
  y[i] = sum;
}
__global__ __launch_bounds__(kThreads) void load_then_use(const float* x, float* y, int64_t n) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  float v[kStreams], sum = 0.f;
#pragma unroll
  for (int s = 0; s < kStreams; ++s) v[s] = ordered_load(x + s * n + i);
#pragma unroll
  for (int s = 0; s < kStreams; ++s) ordered_add(sum, v[s]);
  y[i] = sum;
}
__global__ __launch_bounds__(kThreads) void compiler_order(const float* x, float* y, int64_t n) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  float sum = 0.f;
#pragma unroll
  for (int s = 0; s < kStreams; ++s) sum = fmaf(x[s * n + i], x[s * n + i], sum);
  y[i] = sum;
}

std::unique_ptr<Trial> make_order(const Setup& setup) {
  const int64_t n = setup.dim(0);
  auto trial = std::make_unique<ArrayTrial>(setup);
  const auto x = trial->input<float>("x", n * kStreams);
  const auto y = trial->output<float>("y", n);
  trial->set_cost({.flops = 2.0 * kStreams * n, .bytes = 4.0 * (kStreams + 1) * n, .roof = Roof::kDramRead});
  trial->reference([=](const HostArrays& host) {
    for (size_t i = 0; i < host[y].size(); ++i) {
      double sum = 0;
      for (size_t s = 0; s < kStreams; ++s) {
        const double v = host[x][s * host[y].size() + i];
        sum += v * v;
      }
      host[y][i] = static_cast<float>(sum);
    }
  });
  const auto add = [&](const char* name, auto kernel) {
    trial->variant(name, [=](const Launch& at) {
      gpu::launch({.kernel = name, .grid = {n / kThreads}, .block = {kThreads}}, at.stream(), kernel, at[x],
          at[y], n);
    });
  };
  add("load-use", use_each);
  add("load-load-use-use", load_then_use);
  add("compiler", compiler_order);
  return trial;
}

const Registered kOrder({
    .id = "ch09/load-order",
    .title = "Loads first, uses after",
    .question = "Does issuing independent loads together beat load, use, load, use?",
    .mechanism = "Each use waits for its load, so the fixed order has one load in flight a thread and four "
                 "round trips; loads "
                 "issued together overlap. With enough warps the card hides either, and the compiler hoists "
                 "loads anyway.",
    .claim = {.text = "Manual load scheduling brings 5 to 10 % on memory-bound loops.",
        .variant = "load-load-use-use",
        .speedup = 1.07},
    .variants = {{.name = "load-use", .idea = "each load followed by its use, order pinned"},
        {.name = "load-load-use-use", .idea = "four loads, then four uses, order pinned"},
        {.name = "compiler", .idea = "plain C++: the compiler chooses"}},
    .sizes = sizes_of({1 << 16, 1 << 20, 1 << 24}),
    .quick = sizes_of({1 << 20}),
    .tolerance = {.relative = 1e-5, .absolute = 1e-6},
    .make = make_order,
});

}  // namespace
}  // namespace cheetah::lab
