// SPDX-License-Identifier: MIT
// Registers: capped for more warps, spilled when capped too far, and arrays that cannot live in them.
#include "lab/experiments/device_trial.cuh"

namespace cheetah::lab {
namespace {

constexpr int kThreads = 256;

// A thread keeps kLive numbers alive through `rounds` rounds in which each takes from its neighbour.
template <int kLive>
__device__ void mix_live(const float* x, float* y, int n, int rounds) {
  const int i = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  if (i >= n) return;
  float v[kLive];
#pragma unroll
  for (int j = 0; j < kLive; ++j) v[j] = x[static_cast<int64_t>(j) * n + i];
#pragma unroll 1
  for (int r = 0; r < rounds; ++r)
#pragma unroll
    for (int j = 0; j < kLive; ++j) v[j] = v[j] * 0.75f + v[(j + 1) % kLive] * 0.25f;
  float sum = 0;
#pragma unroll
  for (int j = 0; j < kLive; ++j) sum += v[j] * static_cast<float>(j + 1);
  y[i] = sum;
}

constexpr int kSome = 40, kMany = 64;

__global__ void unbounded(const float* x, float* y, int n, int rounds) { mix_live<kSome>(x, y, n, rounds); }
template <int kBlocks>
__global__ __launch_bounds__(kThreads, kBlocks) void bounded(const float* x, float* y, int n, int rounds) {
  mix_live<kSome>(x, y, n, rounds);
}
template <int kMost>
__global__ __maxnreg__(kMost) void capped(const float* x, float* y, int n, int rounds) {
  mix_live<kMany>(x, y, n, rounds);
}

template <int kLive>
struct MixedLive {
  const float* x;
  int64_t n;
  int rounds;
  __device__ double operator()(int64_t i) const {
    double v[kLive];
    for (int j = 0; j < kLive; ++j) v[j] = x[j * n + i];
    for (int r = 0; r < rounds; ++r) {
      for (int j = 0; j < kLive; ++j) v[j] = v[j] * 0.75 + v[(j + 1) % kLive] * 0.25;
    }
    double sum = 0;
    for (int j = 0; j < kLive; ++j) sum += v[j] * (j + 1);
    return sum;
  }
};

using Kernel = void (*)(const float*, float*, int, int);

template <int kLive>
std::unique_ptr<Trial> make_live(const Setup& setup, std::vector<std::pair<const char*, Kernel>> kernels) {
  const int64_t n = setup.dim(0);
  const auto rounds = static_cast<int>(setup.dim(1));
  auto trial = std::make_unique<DeviceTrial>(setup);
  const auto x = trial->input<float>(n * kLive);
  const auto y = trial->output<float>(n);
  trial->expect<MixedLive<kLive>>(y, [=](const At& at) { return MixedLive<kLive>{at[x], n, rounds}; });
  const double live = 1.0 * kLive * static_cast<double>(n);
  trial->set_cost({.flops = live * (3.0 * rounds + 2),
      .bytes = 4 * live + 4.0 * static_cast<double>(n),
      .roof = rounds < 16 ? Roof::kDram : Roof::kFp32});
  for (const auto& [name, kernel] : kernels)
    trial->variant(name, [=, name = name, kernel = kernel](const At& at) {
      gpu::launch(
          {.kernel = name, .grid = {blocks_of(n, kThreads)}, .block = {kThreads}, .numbers = {n, rounds}},
          at.stream(), kernel, at[x], at[y], static_cast<int>(n), rounds);
    });
  return trial;
}

std::unique_ptr<Trial> make_bounds(const Setup& setup) {
  return make_live<kSome>(setup, {{"none", unbounded}, {"2-blocks", bounded<2>}, {"4-blocks", bounded<4>},
                                     {"6-blocks", bounded<6>}, {"8-blocks", bounded<8>}});
}
std::unique_ptr<Trial> make_caps(const Setup& setup) {
  return make_live<kMany>(setup, {{"255", capped<255>}, {"128", capped<128>}, {"80", capped<80>},
                                     {"64", capped<64>}, {"32", capped<32>}});
}

constexpr int kSlots = 16, kSteps = 64;

__host__ __device__ inline uint32_t slot_of(uint32_t value, int step) {
  return (value * 2654435761u + static_cast<uint32_t>(step)) >> 28;
}

struct LocalTable {  // indexed at run time: the compiler must give it memory
  uint32_t values[kSlots];
  __device__ explicit LocalTable(uint32_t*) {}
  __device__ uint32_t get(uint32_t at) const { return values[at]; }
  __device__ void set(uint32_t at, uint32_t v) { values[at] = v; }
};
struct SelectedTable {  // every slot a register; reading and writing look at all of them
  uint32_t values[kSlots];
  __device__ explicit SelectedTable(uint32_t*) {}
  __device__ uint32_t get(uint32_t at) const {
    uint32_t v = values[0];
#pragma unroll
    for (uint32_t s = 1; s < kSlots; ++s) v = at == s ? values[s] : v;
    return v;
  }
  __device__ void set(uint32_t at, uint32_t v) {
#pragma unroll
    for (uint32_t s = 0; s < kSlots; ++s) values[s] = at == s ? v : values[s];
  }
};
struct SharedTable {  // a column of shared memory a thread: lanes never meet in a bank
  uint32_t* column;
  __device__ explicit SharedTable(uint32_t* tile) : column(tile + threadIdx.x) {}
  __device__ uint32_t get(uint32_t at) const { return column[at * kThreads]; }
  __device__ void set(uint32_t at, uint32_t v) { column[at * kThreads] = v; }
};

template <class Table, bool kNeedsTile>
__global__ __launch_bounds__(kThreads) void use_table(const uint32_t* x, uint32_t* y, int n) {
  __shared__ uint32_t tile[kNeedsTile ? kSlots * kThreads : 1];
  const int i = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  if (i >= n) return;
  Table table(tile);
#pragma unroll
  for (uint32_t s = 0; s < kSlots; ++s) table.set(s, s + 1);
  uint32_t v = x[i];
#pragma unroll 4
  for (int step = 0; step < kSteps; ++step) {
    const uint32_t at = slot_of(v, step);
    v = v * 3 + table.get(at);
    table.set(at, v);
  }
  y[i] = v;
}

struct TableUsed {
  const uint32_t* x;
  __device__ double operator()(int64_t i) const {
    uint32_t values[kSlots];
    for (uint32_t s = 0; s < kSlots; ++s) values[s] = s + 1;
    uint32_t v = x[i];
    for (int step = 0; step < kSteps; ++step) {
      const uint32_t at = slot_of(v, step);
      v = values[at] = v * 3 + values[at];
    }
    return v;
  }
};

std::unique_ptr<Trial> make_tables(const Setup& setup) {
  const int64_t n = setup.dim(0);
  auto trial = std::make_unique<DeviceTrial>(setup);
  const auto x = trial->input<uint32_t>(n);
  const auto y = trial->output<uint32_t>(n);
  trial->expect<TableUsed>(y, [=](const At& at) { return TableUsed{at[x]}; });
  trial->set_cost({.bytes = 8.0 * n, .roof = Roof::kNone, .items = 1.0 * kSteps * n, .item = "table step"});
  const auto add = [&](const char* name, void (*kernel)(const uint32_t*, uint32_t*, int)) {
    trial->variant(name, [=](const At& at) {
      gpu::launch({.kernel = name, .grid = {blocks_of(n, kThreads)}, .block = {kThreads}, .numbers = {n}},
          at.stream(), kernel, at[x], at[y], static_cast<int>(n));
    });
  };
  add("local", use_table<LocalTable, false>);
  add("registers", use_table<SelectedTable, false>);
  add("shared", use_table<SharedTable, true>);
  return trial;
}

const Registered kBounds({
    .id = "ch08/launch-bounds",
    .title = "Launch bounds: more blocks, fewer registers",
    .question = "When does asking for more resident blocks pay, and when do the spills cost more?",
    .mechanism = "The kernel keeps 40 numbers alive. 2 to 4 blocks of 256 leave 128 to 64 registers, enough; "
                 "6 and 8 leave 40 "
                 "and 32, so numbers go to local memory: a little L1 traffic where memory is the limit "
                 "anyway, much where "
                 "arithmetic is.",
    .claim = {.text = "Bounds of 256 threads and 8 blocks trade instruction-level parallelism for warps: "
                      "good for latency-bound kernels, not for compute-bound ones; no figure is given.",
        .variant = "8-blocks"},
    .variants = {{"none", "the compiler's choice for any block"}, {"2-blocks", "at most 128 registers"},
        {"4-blocks", "at most 64"}, {"6-blocks", "at most 40: spills"},
        {"8-blocks", "at most 32: spills more"}},
    .sizes = {{"memory-bound", {1 << 21, 1}}, {"compute-bound", {1 << 20, 64}}},
    .tolerance = {.absolute = 4e-3},  // weights up to 40 on 64 rounds of roundings
    .make = make_bounds,
});

const Registered kCaps({
    .id = "ch08/register-cap",
    .title = "Register caps and spills",
    .question = "How far can the registers of a kernel with 64 live numbers be capped before it slows down?",
    .mechanism = "Down to about 80 registers nothing spills and more warps fit; below the live set numbers "
                 "travel through local "
                 "memory, which L1 holds, but every use is a load and every change a store.",
    .claim = {.text = "Take the smallest cap without heavy spilling; caps that force spills hurt; no figure "
                      "is given."},
    .variants = {{"255", "the most there is"}, {"128", "twice the live set"}, {"80", "just above it"},
        {"64", "just below it"}, {"32", "half of it"}},
    .sizes = {{"memory-bound", {1 << 20, 1}}, {"compute-bound", {1 << 20, 64}}},
    .tolerance = {.absolute = 1e-2},  // weights up to 64
    .make = make_caps,
});

const Registered kTables({
    .id = "ch08/local-arrays",
    .title = "Small tables indexed at run time",
    .question = "Where should a thread keep 16 numbers that it indexes at run time?",
    .mechanism =
        "Registers have no addresses, so such an array goes to local memory, cached in L1 but "
        "interleaved with every "
        "other thread's; a column of shared memory per thread has no tags and no conflicts; selecting "
        "among registers "
        "costs 16 instructions an access.",
    .claim = {.text = "Local memory is off chip and costs hundreds of cycles or more; no figure is given.",
        .variant = "registers"},
    .rotation = Rotation::kHot,
    .variants = {{"local", "an array the compiler puts in local memory"},
        {"registers", "selected among sixteen registers"}, {"shared", "a column of shared memory"}},
    .sizes = sizes_of({1 << 18, 1 << 22}),
    .make = make_tables,
});

}  // namespace
}  // namespace cheetah::lab
