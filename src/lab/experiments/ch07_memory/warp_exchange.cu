// SPDX-License-Identifier: MIT
// Sums and scans inside a warp: through shared memory, by shuffles, by one instruction. Whole numbers, so
// that every order of additions gives the same bits.
#include "lab/experiments/device_trial.cuh"

namespace cheetah::lab {
namespace {

constexpr int kThreads = 256;
constexpr int kRounds = 64;  // exchanges a thread, each fed by the last: memory traffic does not matter
constexpr unsigned kAll = 0xFFFFFFFFu;

// Each gives every lane the warp's total.
struct SharedBlockBarrier {
  static __device__ uint32_t total(uint32_t v, uint32_t* warp, int lane) {
    warp[lane] = v;
    __syncthreads();
    for (int step = 16; step > 0; step /= 2) {
      if (lane < step) warp[lane] += warp[lane + step];
      __syncthreads();
    }
    const uint32_t sum = warp[0];
    __syncthreads();
    return sum;
  }
};
struct SharedWarpBarrier {
  static __device__ uint32_t total(uint32_t v, uint32_t* warp, int lane) {
    warp[lane] = v;
    __syncwarp();
    for (int step = 16; step > 0; step /= 2) {
      if (lane < step) warp[lane] += warp[lane + step];
      __syncwarp();
    }
    const uint32_t sum = warp[0];
    __syncwarp();
    return sum;
  }
};
struct ShuffleDown {
  static __device__ uint32_t total(uint32_t v, uint32_t*, int) {
    for (int step = 16; step > 0; step /= 2) v += __shfl_down_sync(kAll, v, step);
    return __shfl_sync(kAll, v, 0);
  }
};
struct ShuffleXor {
  static __device__ uint32_t total(uint32_t v, uint32_t*, int) {
    for (int step = 16; step > 0; step /= 2) v += __shfl_xor_sync(kAll, v, step);
    return v;
  }
};
struct ReduceInstruction {
  static __device__ uint32_t total(uint32_t v, uint32_t*, int) { return __reduce_add_sync(kAll, v); }
};

__host__ __device__ inline uint32_t next_value(uint32_t v, uint32_t from_warp) {
  return v * 5 + from_warp + 1;
}

template <class Exchange>
__global__ __launch_bounds__(kThreads) void sum_warps(const uint32_t* x, uint32_t* y) {
  __shared__ uint32_t tile[kThreads];
  const int lane = static_cast<int>(threadIdx.x) % 32;
  uint32_t* warp = tile + (threadIdx.x - static_cast<unsigned>(lane));
  uint32_t v = x[blockIdx.x * kThreads + threadIdx.x];
  for (int round = 0; round < kRounds; ++round) v = next_value(v, Exchange::total(v, warp, lane));
  y[blockIdx.x * kThreads + threadIdx.x] = v;
}

// Each gives a lane the sum of its own and all lower lanes' values.
struct SharedScan {
  static __device__ uint32_t up_to(uint32_t v, uint32_t* warp, int lane) {
    warp[lane] = v;
    __syncwarp();
    for (int step = 1; step < 32; step *= 2) {
      const uint32_t below = lane >= step ? warp[lane - step] : 0;
      __syncwarp();
      warp[lane] += below;
      __syncwarp();
    }
    const uint32_t sum = warp[lane];
    __syncwarp();
    return sum;
  }
};
struct ShuffleScan {
  static __device__ uint32_t up_to(uint32_t v, uint32_t*, int lane) {
    for (int step = 1; step < 32; step *= 2) {
      const uint32_t below = __shfl_up_sync(kAll, v, step);
      if (lane >= step) v += below;
    }
    return v;
  }
};
// Every lane reads what lies below it: no steps, but 31 reads.
struct SerialScan {
  static __device__ uint32_t up_to(uint32_t v, uint32_t* warp, int lane) {
    warp[lane] = v;
    __syncwarp();
    uint32_t sum = 0;
    for (int i = 0; i < 32; ++i) sum += i <= lane ? warp[i] : 0;
    __syncwarp();
    return sum;
  }
};

template <class Exchange>
__global__ __launch_bounds__(kThreads) void scan_warps(const uint32_t* x, uint32_t* y) {
  __shared__ uint32_t tile[kThreads];
  const int lane = static_cast<int>(threadIdx.x) % 32;
  uint32_t* warp = tile + (threadIdx.x - static_cast<unsigned>(lane));
  uint32_t v = x[blockIdx.x * kThreads + threadIdx.x];
  for (int round = 0; round < kRounds; ++round) v = next_value(v, Exchange::up_to(v, warp, lane));
  y[blockIdx.x * kThreads + threadIdx.x] = v;
}

// A warp's lanes, all played by one thread.
template <bool kScan>
struct Played {
  const uint32_t* x;
  __device__ double operator()(int64_t at) const {
    uint32_t lanes[32];
    for (int i = 0; i < 32; ++i) lanes[i] = x[at / 32 * 32 + i];
    for (int round = 0; round < kRounds; ++round) {
      uint32_t total = 0, below = 0;
      for (const uint32_t lane : lanes) total += lane;
      for (uint32_t& lane : lanes) {
        below += lane;
        lane = next_value(lane, kScan ? below : total);
      }
    }
    return lanes[at % 32];
  }
};

using Kernel = void (*)(const uint32_t*, uint32_t*);

template <bool kScan>
std::unique_ptr<Trial> make(const Setup& setup, std::vector<std::pair<const char*, Kernel>> kernels) {
  const int64_t n = setup.dim(0);  // a multiple of the block
  auto trial = std::make_unique<DeviceTrial>(setup);
  const auto x = trial->input<uint32_t>(n);
  const auto y = trial->output<uint32_t>(n);
  trial->expect<Played<kScan>>(y, [=](const At& at) { return Played<kScan>{at[x]}; });
  trial->set_cost(
      {.bytes = 8.0 * n, .roof = Roof::kNone, .items = 1.0 * n / 32 * kRounds, .item = "warp exchange"});
  for (const auto& [name, kernel] : kernels)
    trial->variant(name, [=, name = name, kernel = kernel](const At& at) {
      gpu::launch({.kernel = name, .grid = {n / kThreads}, .block = {kThreads}, .numbers = {n}}, at.stream(),
          kernel, at[x], at[y]);
    });
  return trial;
}

std::unique_ptr<Trial> make_sum(const Setup& setup) {
  return make<false>(
      setup, {{"shared-syncthreads", sum_warps<SharedBlockBarrier>},
                 {"shared-syncwarp", sum_warps<SharedWarpBarrier>}, {"shuffle-down", sum_warps<ShuffleDown>},
                 {"shuffle-xor", sum_warps<ShuffleXor>}, {"reduce", sum_warps<ReduceInstruction>}});
}
std::unique_ptr<Trial> make_scan(const Setup& setup) {
  return make<true>(
      setup, {{"shared-steps", scan_warps<SharedScan>}, {"shared-serial", scan_warps<SerialScan>},
                 {"shuffle-up", scan_warps<ShuffleScan>}});
}

const Registered kWarpSum({
    .id = "ch07/warp-sum",
    .title = "Adding up a warp",
    .question = "How much do shuffles save over shared memory when 32 lanes add their values?",
    .mechanism = "Shared memory needs a store, a barrier and five dependent read-add-write steps; shuffles "
                 "move registers in "
                 "five steps without barriers; the integer reduction does it in one instruction.",
    .claim = {.text = "Shuffles need neither shared memory nor barriers and typically bring 1.1 to 1.3 times "
                      "at the warp level.",
        .variant = "shuffle-down",
        .speedup = 1.2},
    .rotation = Rotation::kHot,
    .variants = {{"shared-syncthreads", "shared memory, block barriers"},
        {"shared-syncwarp", "shared memory, warp barriers"},
        {"shuffle-down", "five shuffles down, one to spread the total"},
        {"shuffle-xor", "butterfly: every lane ends with the total"},
        {"reduce", "one integer reduction instruction"}},
    .sizes = sizes_of({1 << 18, 1 << 22}),
    .make = make_sum,
});

const Registered kWarpScan({
    .id = "ch07/warp-scan",
    .title = "Prefix sums inside a warp",
    .question = "How much do shuffles save in a prefix sum of 32 lanes?",
    .mechanism = "Five shuffle steps replace five rounds of shared reads, writes and warp barriers; reading "
                 "all lower values "
                 "one after another trades barriers for 32 reads.",
    .claim = {.text = "Intra-warp exchange belongs in registers; no figure is given for a scan."},
    .rotation = Rotation::kHot,
    .variants = {{"shared-steps", "doubling steps in shared memory"},
        {"shared-serial", "every lane reads all lower values"}, {"shuffle-up", "doubling steps by shuffles"}},
    .sizes = sizes_of({1 << 18, 1 << 22}),
    .make = make_scan,
});

}  // namespace
}  // namespace cheetah::lab
