// SPDX-License-Identifier: MIT
#include "gpu/ceilings.h"

#include <algorithm>

#include "gpu/launch.cuh"

namespace cheetah::gpu {
namespace {

constexpr int kThreads = 512;

// Reads everything with 16-byte loads, four in flight a thread; the sum keeps the loads alive.
__global__ __launch_bounds__(kThreads) void read_all(const uint4* data, int64_t count, uint32_t* sink) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  uint32_t sum = 0;
  for (; i + 3 * step < count; i += 4 * step) {
    const uint4 a = __ldcs(data + i), b = __ldcs(data + i + step), c = __ldcs(data + i + 2 * step),
                d = __ldcs(data + i + 3 * step);
    sum += a.x ^ a.w ^ b.x ^ b.w ^ c.x ^ c.w ^ d.x ^ d.w;
  }
  for (; i < count; i += step) sum += data[i].x;
  if (sum == 0x12345678u) *sink = sum;
}

constexpr int kChains = 8;  // independent, so that latency hides
constexpr int kRounds = 4096;

__global__ __launch_bounds__(kThreads) void multiply_add(float* sink) {
  float chains[kChains];
#pragma unroll
  for (int i = 0; i < kChains; ++i) chains[i] = static_cast<float>(threadIdx.x + i);
  for (int round = 0; round < kRounds; ++round)
#pragma unroll
    for (float& chain : chains) chain = chain * 0.999f + 0.5f;
  float sum = 0.f;
#pragma unroll
  for (const float chain : chains) sum += chain;
  if (sum == 1.25f) *sink = sum;
}

// The shortest of several runs, in seconds.
template <class Work>
double best_seconds(Stream& stream, Work&& work) {
  Event begin(Event::Timing::kTimed), end(Event::Timing::kTimed);
  double best = 1e9;
  for (int i = 0; i < 8; ++i) {
    begin.record(stream);
    work();
    end.record(stream);
    end.wait();
    best = std::min(best, milliseconds_between(begin, end) / 1e3);
  }
  return best;
}

}  // namespace

double measure_read_bandwidth(DeviceMemory& memory, Stream& stream) {
  const int64_t bytes =
      std::clamp<int64_t>(stream.device().memory_bytes / 16, int64_t{256} << 20, int64_t{2} << 30);
  const DeviceBuffer data = memory.allocate(ArenaKind::kWorkspace, bytes + 256, stream);
  fill_bytes(data.data(), 1, data.size(), stream);
  const auto count = bytes / static_cast<int64_t>(sizeof(uint4));
  const double seconds = best_seconds(stream, [&] {
    launch({.kernel = "read_all",
               .grid = {stream.device().num_sms * 4},
               .block = {kThreads},
               .numbers = {bytes}},
        stream, read_all, data.as<uint4>(), count, reinterpret_cast<uint32_t*>(data.data() + bytes));
  });
  return static_cast<double>(bytes) / seconds;
}

double measure_fma_peak(DeviceMemory& memory, Stream& stream) {
  const DeviceBuffer sink = memory.allocate(ArenaKind::kWorkspace, 256, stream);
  const int64_t blocks = stream.device().num_sms * 4;
  const double seconds = best_seconds(stream, [&] {
    launch({.kernel = "multiply_add", .grid = {blocks}, .block = {kThreads}}, stream, multiply_add,
        sink.as<float>());
  });
  return 2.0 * kChains * kRounds * kThreads * static_cast<double>(blocks) / seconds;
}

}  // namespace cheetah::gpu
