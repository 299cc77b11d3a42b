// SPDX-License-Identifier: MIT
// Lanes of a warp that want different code.
#include "lab/experiments/device_trial.cuh"

namespace cheetah::lab {
namespace {

constexpr int kThreads = 256;

// Two bodies of `work` multiply-adds each; which one is the number's sign.
__device__ float body_a(float v, int work) {
  for (int k = 0; k < work; ++k) v = v * 0.99f + 0.01f;
  return v;
}
__device__ float body_b(float v, int work) {
  for (int k = 0; k < work; ++k) v = v * 0.98f - 0.02f;
  return v;
}
struct Branched {
  const float* x;
  int work;
  __device__ double operator()(int64_t i) const {
    double v = x[i];
    const bool positive = v > 0;
    for (int k = 0; k < work; ++k)
      v = positive ? v * static_cast<double>(0.99f) + static_cast<double>(0.01f)
                   : v * static_cast<double>(0.98f) - static_cast<double>(0.02f);
    return v;
  }
};

__device__ int own_index() { return static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x); }

__global__ __launch_bounds__(kThreads) void branch(const float* x, float* y, int n, int work) {
  const int i = own_index();
  if (i >= n) return;
  const float v = x[i];
  y[i] = v > 0 ? body_a(v, work) : body_b(v, work);
}
// Both bodies for every lane, the answer selected: no divergence, all the work.
__global__ __launch_bounds__(kThreads) void select_both(const float* x, float* y, int n, int work) {
  const int i = own_index();
  if (i >= n) return;
  const float v = x[i];
  float a = v, b = v;
  for (int k = 0; k < work; ++k) {
    a = a * 0.99f + 0.01f;
    b = b * 0.98f - 0.02f;
  }
  y[i] = v > 0 ? a : b;
}
// One body with selected constants: what a careful rewrite does where the bodies are alike.
__global__ __launch_bounds__(kThreads) void merge_bodies(const float* x, float* y, int n, int work) {
  const int i = own_index();
  if (i >= n) return;
  float v = x[i];
  const float factor = v > 0 ? 0.99f : 0.98f, addend = v > 0 ? 0.01f : -0.02f;
  for (int k = 0; k < work; ++k) v = v * factor + addend;
  y[i] = v;
}
// The block sorts its numbers by branch in shared memory first: at most one warp of it still diverges.
__global__ __launch_bounds__(kThreads) void sort_block(const float* x, float* y, int n, int work) {
  __shared__ float value[kThreads];
  __shared__ int origin[kThreads], positives_before[kThreads / 32];
  const int i = own_index(), lane = static_cast<int>(threadIdx.x) % 32,
            warp = static_cast<int>(threadIdx.x) / 32;
  const float v = i < n ? x[i] : 0;
  const bool positive = v > 0;
  const unsigned votes = __ballot_sync(0xFFFFFFFFu, positive);
  if (lane == 0) positives_before[warp] = __popc(votes);
  __syncthreads();
  int before = 0, all = 0;
  for (int w = 0; w < kThreads / 32; ++w) {
    before += w < warp ? positives_before[w] : 0;
    all += positives_before[w];
  }
  const int rank = before + __popc(votes & ((1u << lane) - 1));  // positives in front of this thread
  const int place = positive ? rank : all + static_cast<int>(threadIdx.x) - rank;
  value[place] = v;
  origin[place] = i;
  __syncthreads();
  const float taken = value[threadIdx.x];
  const int to = origin[threadIdx.x];
  const float result = static_cast<int>(threadIdx.x) < all ? body_a(taken, work) : body_b(taken, work);
  if (to < n) y[to] = result;
}

// How the signs of the input lie.
enum class Signs { kRandom, kAlternating, kClustered };
struct Signed {
  Signs signs;
  int percent;  // positive
  __device__ float operator()(uint64_t seed, int64_t i) const {
    const uint64_t bits = mixed(seed, static_cast<uint64_t>(i));
    const float size = 0.25f + static_cast<float>(bits >> 40) * 0x1p-25f;
    bool positive = static_cast<int>(bits % 100) < percent;
    if (signs == Signs::kAlternating) positive = i % 2 == 0;
    if (signs == Signs::kClustered)
      positive = static_cast<int>(mixed(seed ^ 1, static_cast<uint64_t>(i / 1024)) % 100) < percent;
    return positive ? size : -size;
  }
};

using Kernel = void (*)(const float*, float*, int, int);

void add(DeviceTrial& trial, const char* name, Kernel kernel, Slot<float> x, Slot<float> y, int work) {
  const int64_t n = y.count;
  trial.variant(name, [=](const At& at) {
    gpu::launch({.kernel = name, .grid = {blocks_of(n, kThreads)}, .block = {kThreads}, .numbers = {n, work}},
        at.stream(), kernel, at[x], at[y], static_cast<int>(n), work);
  });
}

std::unique_ptr<Trial> make_bodies(const Setup& setup) {
  const int64_t n = setup.dim(0);
  const auto work = static_cast<int>(setup.dim(1));
  auto trial = std::make_unique<DeviceTrial>(setup);
  const auto x = trial->input_from<float>(n, Signed{Signs::kRandom, 50});
  const auto y = trial->output<float>(n);
  trial->expect<Branched>(y, [=](const At& at) { return Branched{at[x], work}; });
  trial->set_cost({.flops = 2.0 * work * n, .bytes = 8.0 * n, .roof = work < 32 ? Roof::kDram : Roof::kFp32});
  add(*trial, "branch", branch, x, y, work);
  add(*trial, "select", select_both, x, y, work);
  add(*trial, "merge", merge_bodies, x, y, work);
  add(*trial, "sort-block", sort_block, x, y, work);
  return trial;
}

std::unique_ptr<Trial> make_fraction(const Setup& setup) {
  const auto percent = static_cast<int>(setup.dim(0));
  constexpr int64_t kNumbers = 1 << 24;
  constexpr int kWork = 128;
  auto trial = std::make_unique<DeviceTrial>(setup);
  const auto random = trial->input_from<float>(kNumbers, Signed{Signs::kRandom, percent});
  const auto clustered = trial->input_from<float>(kNumbers, Signed{Signs::kClustered, percent});
  const auto y = trial->output<float>(kNumbers);
  trial->expect<Branched>(y, [=](const At& at) {
    return Branched{at[at.variant() == 1 ? clustered : random], kWork};
  });
  trial->set_cost({.flops = 2.0 * kWork * kNumbers, .bytes = 8.0 * kNumbers, .roof = Roof::kFp32});
  add(*trial, "random", branch, random, y, kWork);
  add(*trial, "clustered", branch, clustered, y, kWork);
  add(*trial, "sort-block", sort_block, random, y, kWork);
  return trial;
}

const Registered kBodies({
    .id = "ch08/divergence",
    .title = "Two-way branches: diverge, select, merge, sort",
    .question = "Which cure for a 50/50 branch pays, from a few to hundreds of operations a side?",
    .mechanism = "A split warp runs both sides one after the other: twice the time of one. Selecting runs "
                 "both sides too, "
                 "merging like bodies runs one, and sorting the block by branch costs shared memory and "
                 "barriers but leaves one "
                 "split warp of eight. Short bodies hide behind memory and nothing matters.",
    .claim = {.text = "Replacing the branch by a select takes 30 to 15 ms (its branch is so short that the "
                      "compiler predicates it anyway).",
        .variant = "select",
        .speedup = 2},
    .variants = {{"branch", "if and else, lanes split at random"},
        {"select", "both sides for all lanes, answer selected"},
        {"merge", "one body with selected constants"},
        {"sort-block", "numbers grouped by branch in shared memory"}},
    .sizes = {{"work 1", {1 << 26, 1}}, {"work 16", {1 << 26, 16}}, {"work 64", {1 << 24, 64}},
        {"work 256", {1 << 24, 256}}},
    .tolerance = {.absolute = 1e-4},
    .make = make_bodies,
});

const Registered kFraction({
    .id = "ch08/branch-fraction",
    .title = "A branch taken by some lanes",
    .question = "How rare must a branch be before random lanes stop paying for both sides?",
    .mechanism =
        "A warp runs one side only if all its lanes agree: with a fraction p taken at random that is p^32 + "
        "(1-p)^32 of "
        "the warps, so even 3 % taken splits most of them; clustered or sorted data splits almost none.",
    .claim =
        {.text =
                "Partitioning the data so that each warp is homogeneous gives up to twice the speed at 50/50.",
            .variant = "clustered",
            .speedup = 2},
    .variants = {{"random", "taken by random lanes"}, {"clustered", "taken by runs of 1024 numbers"},
        {"sort-block", "random, grouped by branch in shared memory"}},
    .sizes = {{"1 % taken", {1}}, {"10 % taken", {10}}, {"50 % taken", {50}}},
    .tolerance = {.absolute = 1e-4},
    .make = make_fraction,
});

// Sixteen bodies with constants of their own; `way` decides, and who shares a way decides the cost.
template <int kWay>
__device__ float way_body(float v, int work) {
  for (int k = 0; k < work; ++k) v = v * (0.9f + 0.005f * kWay) + 0.01f * (kWay + 1);
  return v;
}
__device__ float run_way(int way, float v, int work) {
  switch (way) {
    case 0:
      return way_body<0>(v, work);
    case 1:
      return way_body<1>(v, work);
    case 2:
      return way_body<2>(v, work);
    case 3:
      return way_body<3>(v, work);
    case 4:
      return way_body<4>(v, work);
    case 5:
      return way_body<5>(v, work);
    case 6:
      return way_body<6>(v, work);
    default:
      return way_body<7>(v, work);
  }
}
// Threads in groups of kGroup consecutive ones take the same of kWays ways.
template <int kWays, int kGroup>
__global__ __launch_bounds__(kThreads) void ways(const float* x, float* y, int n, int work) {
  const int i = own_index();
  if (i < n) y[i] = run_way(i / kGroup % kWays, x[i], work);
}
struct WayOf {
  const float* x;
  int ways, group, work;
  __device__ double operator()(int64_t i) const {
    const int way = static_cast<int>(i / group % ways);
    const double factor = static_cast<double>(0.9f + 0.005f * static_cast<float>(way));
    const double addend = static_cast<double>(0.01f * static_cast<float>(way + 1));
    double v = x[i];
    for (int k = 0; k < work; ++k) v = v * factor + addend;
    return v;
  }
};

std::unique_ptr<Trial> make_ways(const Setup& setup) {
  const int64_t n = setup.dim(0);
  constexpr int kWork = 64;
  constexpr int kWaysOf[] = {8, 4, 2, 8, 1}, kGroupOf[] = {1, 1, 1, 32, 1};
  auto trial = std::make_unique<DeviceTrial>(setup);
  const auto x = trial->input<float>(n);
  const auto y = trial->output<float>(n);
  trial->expect<WayOf>(y, [=](const At& at) {
    return WayOf{at[x], kWaysOf[at.variant()], kGroupOf[at.variant()], kWork};
  });
  trial->set_cost({.flops = 2.0 * kWork * n, .bytes = 8.0 * n, .roof = Roof::kFp32});
  add(*trial, "8-ways-by-lane", ways<8, 1>, x, y, kWork);
  add(*trial, "4-ways-by-lane", ways<4, 1>, x, y, kWork);
  add(*trial, "2-ways-by-lane", ways<2, 1>, x, y, kWork);
  add(*trial, "8-ways-by-warp", ways<8, 32>, x, y, kWork);
  add(*trial, "1-way", ways<1, 1>, x, y, kWork);
  return trial;
}

const Registered kWays({
    .id = "ch08/branch-ways",
    .title = "Many ways, by lane or by warp",
    .question =
        "Does time grow with the number of ways lanes take, and is a branch on the warp's index free?",
    .mechanism = "A warp runs every way that one of its lanes takes, one after the other: 8 ways, 8 times. "
                 "When all lanes of a "
                 "warp take the same way each warp runs one, whatever the others do.",
    .claim = {.text = "Cost follows the number of distinct paths inside a warp; branching on the warp's "
                      "index keeps warps whole; no figure is given.",
        .variant = "8-ways-by-warp",
        .speedup = 8},
    .variants = {{"8-ways-by-lane", "lane mod 8 decides"}, {"4-ways-by-lane", "lane mod 4 decides"},
        {"2-ways-by-lane", "odd and even lanes"}, {"8-ways-by-warp", "warp mod 8 decides"},
        {"1-way", "all alike"}},
    .sizes = sizes_of({1 << 20, 1 << 24}),
    .tolerance = {.absolute = 1e-4},
    .make = make_ways,
});

}  // namespace
}  // namespace cheetah::lab
