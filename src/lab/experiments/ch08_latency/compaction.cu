// SPDX-License-Identifier: MIT
// The numbers that pass a test, packed together: who asks for the next free place?
#include "lab/experiments/device_trial.cuh"

namespace cheetah::lab {
namespace {

constexpr int kThreads = 256;
constexpr unsigned kAll = 0xFFFFFFFFu;
constexpr uint32_t kNowhere = 0xFFFFFFFEu;

__device__ bool passes(float v, float limit) { return v < limit; }

struct CompactArgs {
  const float* x;
  float limit;
  float* packed;
  uint32_t* place;  // of every number, so that the order does not matter to the check
  uint32_t* count;
  int n;
};

__device__ void put(const CompactArgs& args, int i, float v, bool kept, uint32_t to) {
  if (kept) args.packed[to] = v;
  if (i < args.n) args.place[i] = kept ? to : kNowhere;
}

// kMerged: one address for all lanes, so that the compiler merges a warp's additions. Otherwise it must
// believe that lanes ask at different places: the input has no number that is unlike itself.
template <bool kMerged>
__global__ __launch_bounds__(kThreads) void each_asks(const CompactArgs args) {
  const int i = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  const float v = i < args.n ? args.x[i] : 0;
  const bool kept = i < args.n && passes(v, args.limit);
  uint32_t* const count = args.count + (kMerged || v == v ? 0 : 1);
  put(args, i, v, kept, kept ? atomicAdd(count, 1u) : 0);
}

// The warp votes; one lane asks for all of its places.
__global__ __launch_bounds__(kThreads) void warp_asks(const CompactArgs args) {
  const int i = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  const unsigned lane = threadIdx.x % 32;
  const float v = i < args.n ? args.x[i] : 0;
  const bool kept = i < args.n && passes(v, args.limit);
  const unsigned votes = __ballot_sync(kAll, kept);
  uint32_t first = 0;
  if (lane == 0 && votes) first = atomicAdd(args.count, static_cast<uint32_t>(__popc(votes)));
  first = __shfl_sync(kAll, first, 0);
  put(args, i, v, kept, first + static_cast<uint32_t>(__popc(votes & ((1u << lane) - 1))));
}

// The warps' counts meet in shared memory; one thread asks for the block.
__global__ __launch_bounds__(kThreads) void block_asks(const CompactArgs args) {
  __shared__ uint32_t of_warp[kThreads / 32], first_of_block;
  const int i = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const float v = i < args.n ? args.x[i] : 0;
  const bool kept = i < args.n && passes(v, args.limit);
  const unsigned votes = __ballot_sync(kAll, kept);
  if (lane == 0) of_warp[warp] = static_cast<uint32_t>(__popc(votes));
  __syncthreads();
  if (threadIdx.x == 0) {
    uint32_t all = 0;
    for (uint32_t& count : of_warp) {
      const uint32_t before = all;
      all += count;
      count = before;
    }
    first_of_block = all ? atomicAdd(args.count, all) : 0;
  }
  __syncthreads();
  const uint32_t before = of_warp[warp] + static_cast<uint32_t>(__popc(votes & ((1u << lane) - 1)));
  put(args, i, v, kept, first_of_block + before);
}

// Right when every number that passes lies where its place says, places are below the count, and no other has
// one.
struct Placed {
  const float* x;
  const float* packed;
  const uint32_t* place;
  const uint32_t* count;
  float limit;
  __device__ double operator()(int64_t i) const {
    if (!(x[i] < limit)) return kNowhere;
    const uint32_t at = place[i];
    const bool right = at < *count && packed[at] == x[i];
    return right ? at : -1.0;
  }
};
// The count itself: pieces of the input counted by one thread each.
constexpr int64_t kPiece = 4096;
__global__ void count_pieces(const float* x, float limit, uint32_t* pieces, int64_t n) {
  const int64_t p = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (p * kPiece >= n) return;
  uint32_t count = 0;
  for (int64_t i = p * kPiece; i < (p + 1) * kPiece && i < n; ++i) count += x[i] < limit;
  pieces[p] = count;
}
struct CountOf {
  const uint32_t* pieces;
  int64_t num_pieces;
  __device__ double operator()(int64_t) const {
    uint32_t count = 0;
    for (int64_t p = 0; p < num_pieces; ++p) count += pieces[p];
    return count;
  }
};

std::unique_ptr<Trial> make(const Setup& setup) {
  const int64_t n = setup.dim(0), percent = setup.dim(1);
  const float limit = static_cast<float>(percent) / 50.f - 1.f;  // of numbers uniform in [-1, 1)
  auto trial = std::make_unique<DeviceTrial>(setup);
  const auto x = trial->input<float>(n);
  const auto packed = trial->scratch<float>(n);
  const auto pieces = trial->scratch<uint32_t>(blocks_of(n, kPiece));
  const auto place = trial->output<uint32_t>(n);
  const auto count = trial->output<uint32_t>(1);
  trial->after_fill([=](const At& at) {
    gpu::launch({.kernel = "count_pieces", .grid = {blocks_of(pieces.count, 64)}, .block = {64}}, at.stream(),
        count_pieces, at[x], limit, at[pieces], n);
  });
  trial->expect<CountOf>(count, [=](const At& at) { return CountOf{at[pieces], pieces.count}; });
  trial->expect<Placed>(place, [=](const At& at) {
    return Placed{at[x], at[packed], at[place], at[count], limit};
  });
  // At least 99 % of the expected share passes, with sizes in the millions.
  trial->set_cost({.bytes = 8.0 * n + 4.0 * 0.0099 * static_cast<double>(percent * n)});
  const auto add = [&](const char* name, void (*kernel)(const CompactArgs)) {
    trial->variant(name, [=](const At& at) {
      gpu::fill_bytes(at[count], 0, sizeof(uint32_t), at.stream());
      gpu::launch({.kernel = name, .grid = {blocks_of(n, kThreads)}, .block = {kThreads}, .numbers = {n}},
          at.stream(), kernel,
          CompactArgs{at[x], limit, at[packed], at[place], at[count], static_cast<int>(n)});
    });
  };
  add("each-asks", each_asks<false>);
  add("each-merged", each_asks<true>);
  add("warp-asks", warp_asks);
  add("block-asks", block_asks);
  return trial;
}

const Registered kCompaction({
    .id = "ch08/vote-compaction",
    .title = "Compaction with votes",
    .question = "How much do votes save when some lanes have something to hand over?",
    .mechanism =
        "One atomic addition per kept number queues at one address; a vote counts a warp's numbers at "
        "once, so a warp asks "
        "once, and a block once with two barriers more.",
    .claim = {.text = "Ballots find the lanes that need special work and hand it to few; typical gains of "
                      "warp-level work are 1.1 to 1.3 times.",
        .variant = "warp-asks",
        .speedup = 1.2},
    .variants = {{"each-asks", "an atomic addition per number"},
        {"each-merged", "the same, merged a warp at a time by the compiler"},
        {"warp-asks", "a vote and an atomic addition per warp"},
        {"block-asks", "an atomic addition per block"}},
    .sizes = {{"1M, 50 % kept", {1 << 20, 50}}, {"64M, 10 % kept", {1 << 26, 10}},
        {"64M, 90 % kept", {1 << 26, 90}}},
    .make = make,
});

}  // namespace
}  // namespace cheetah::lab
