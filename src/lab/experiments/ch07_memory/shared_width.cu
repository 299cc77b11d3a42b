// SPDX-License-Identifier: MIT
// Shared memory read 4, 8 and 16 bytes per lane, and one word by all lanes.
#include "lab/experiments/device_trial.cuh"

namespace cheetah::lab {
namespace {

constexpr int kThreads = 256;
constexpr int kWords = 4096;
constexpr int kBlocks = 132 * 8;
constexpr int kBytes = 128;  // a lane and round

__device__ uint32_t total(uint32_t v) { return v; }
__device__ uint32_t total(uint2 v) { return v.x + v.y; }
__device__ uint32_t total(uint4 v) { return v.x + v.y + v.z + v.w; }

// Volatile, or the assembler would read once for all rounds.
template <class Vector>
__device__ Vector load(const Vector* from) {
  Vector v;
  const uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(from));
  if constexpr (sizeof(Vector) == 4)
    asm volatile("ld.volatile.shared.u32 %0, [%1];" : "=r"(v) : "r"(address));
  else if constexpr (sizeof(Vector) == 8)
    asm volatile("ld.volatile.shared.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "r"(address));
  else
    asm volatile("ld.volatile.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(address));
  return v;
}

// Load k of a lane is vector lane + 32 k of the tile: consecutive lanes, consecutive vectors. kSame: every
// lane reads vector 32 k.
template <class Vector, bool kSame>
__global__ __launch_bounds__(kThreads) void read_tile(const uint32_t* in, uint32_t* out, int rounds) {
  __shared__ __align__(16) uint32_t tile[kWords];
  for (int i = static_cast<int>(threadIdx.x); i < kWords; i += kThreads) tile[i] = in[i];
  __syncthreads();
  constexpr int kLoads = kBytes / static_cast<int>(sizeof(Vector));
  const Vector* from = reinterpret_cast<const Vector*>(tile) + (kSame ? 0 : threadIdx.x % 32);
  uint32_t sum = threadIdx.x;
  for (int r = 0; r < rounds; ++r)
#pragma unroll
    for (int k = 0; k < kLoads; ++k) sum += total(load(from + 32 * k));
  out[blockIdx.x * kThreads + threadIdx.x] = sum;
}

struct LaneSum {
  const uint32_t* in;
  int words;  // a vector
  bool same;
  int rounds;
  __device__ double operator()(int64_t i) const {
    const int lane = same ? 0 : static_cast<int>(i % 32);
    uint32_t sum = 0;
    for (int k = 0; k < kBytes / 4 / words; ++k)
      for (int w = 0; w < words; ++w) sum += in[(lane + 32 * k) * words + w];
    return static_cast<uint32_t>(sum * static_cast<uint32_t>(rounds) + static_cast<uint32_t>(i % kThreads));
  }
};

struct Reading {
  const char* name;
  void (*kernel)(const uint32_t*, uint32_t*, int);
  int words;
  bool same;
};
constexpr Reading kReadings[] = {{"4-bytes", read_tile<uint32_t, false>, 1, false},
    {"8-bytes", read_tile<uint2, false>, 2, false}, {"16-bytes", read_tile<uint4, false>, 4, false},
    {"broadcast", read_tile<uint32_t, true>, 1, true}, {"broadcast-16", read_tile<uint4, true>, 4, true}};

std::unique_ptr<Trial> make(const Setup& setup) {
  const int64_t rounds = setup.dim(0);
  auto trial = std::make_unique<DeviceTrial>(setup);
  const auto in = trial->input<uint32_t>(kWords);
  const auto out = trial->output<uint32_t>(kBlocks * kThreads);
  trial->expect<LaneSum>(out, [=](const At& at) {
    const Reading& reading = kReadings[at.variant()];
    return LaneSum{at[in], reading.words, reading.same, static_cast<int>(rounds)};
  });
  const double lane_bytes = 1.0 * kBytes * rounds * kBlocks * kThreads;
  trial->set_cost({.bytes = lane_bytes, .roof = Roof::kL1});
  // A broadcast reads one word for 32 lanes: the banks' roof does not bound what the lanes get.
  trial->set_cost("broadcast", {.roof = Roof::kNone, .items = lane_bytes, .item = "byte to a lane"});
  trial->set_cost("broadcast-16", {.roof = Roof::kNone, .items = lane_bytes, .item = "byte to a lane"});
  for (const Reading& reading : kReadings)
    trial->variant(reading.name, [=, kernel = reading.kernel](const At& at) {
      gpu::launch({.kernel = "read_tile", .grid = {kBlocks}, .block = {kThreads}, .numbers = {rounds}},
          at.stream(), kernel, at[in], at[out], static_cast<int>(rounds));
    });
  return trial;
}

const Registered kSharedWidth({
    .id = "ch07/shared-width",
    .title = "Shared-memory reads: width and broadcast",
    .question = "Do wide reads and broadcasts get more out of shared memory than 4 bytes per lane?",
    .mechanism =
        "The banks give 128 bytes per cycle whatever the width: 16-byte reads take four cycles and save "
        "instructions, "
        "not time, unless instructions are the limit. One word for all lanes takes one cycle, and a 16-byte "
        "broadcast feeds four times the bytes of it.",
    .claim = {.text = "All lanes reading one address is a broadcast without conflict; no figure is given."},
    .rotation = Rotation::kHot,
    .variants = {{"4-bytes", "consecutive words"}, {"8-bytes", "consecutive pairs, half a warp per cycle"},
        {"16-bytes", "consecutive quads, a quarter of a warp per cycle"},
        {"broadcast", "one word for all lanes"}, {"broadcast-16", "one quad for all lanes"}},
    .sizes = sizes_of({32, 256}),
    .make = make,
});

}  // namespace
}  // namespace cheetah::lab
