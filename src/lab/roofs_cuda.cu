// SPDX-License-Identifier: MIT
// Limits of a GPU. Kernels are as plain as the limit allows: each is the best of several runs.
#include <algorithm>

#include "gpu/ceilings.h"
#include "gpu/launch.cuh"
#include "lab/roofs.h"
#include "lab/tensor_roof.h"

namespace cheetah::lab {
namespace {

constexpr int kThreads = 512;
constexpr int kBlocksPerSm = 4;

// 16 bytes per thread, many blocks: a fifteenth faster than few blocks that walk.
__global__ __launch_bounds__(kThreads) void copy_all(
    const uint4* __restrict__ from, uint4* __restrict__ to, int64_t count) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < count) to[i] = from[i];
}

// All the data `passes` times, past the L1, four loads in flight: from the L2 what fits there, otherwise
// memory.
__global__ __launch_bounds__(kThreads) void read_all(
    const uint4* data, int count, int passes, uint32_t* sink) {
  uint32_t sum = 0;
  const int step = static_cast<int>(gridDim.x) * kThreads;
  for (int pass = 0; pass < passes; ++pass)
    for (int i = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
         i + 3 * step < count; i += 4 * step) {
      const uint4 a = __ldcg(data + i), b = __ldcg(data + i + step), c = __ldcg(data + i + 2 * step),
                  d = __ldcg(data + i + 3 * step);
      sum += a.x ^ b.y ^ c.z ^ d.w ^ static_cast<uint32_t>(pass);
    }
  if (sum == 0x12345678u) *sink = sum;
}

constexpr int kSharedVectors = 2048;  // 32 KiB
constexpr int kSharedRounds = 512;

// 16 bytes per lane, neighbouring lanes neighbouring addresses: no bank conflict.
__global__ __launch_bounds__(kThreads) void read_shared(uint32_t* sink) {
  __shared__ uint4 data[kSharedVectors];
  for (int i = static_cast<int>(threadIdx.x); i < kSharedVectors; i += kThreads)
    data[i] = make_uint4(threadIdx.x, 1, 2, 3);
  __syncthreads();
  uint32_t sum = 0;
  for (int round = 0; round < kSharedRounds; ++round)
#pragma unroll
    for (int i = 0; i < kSharedVectors / kThreads; ++i) {
      // volatile for both compilers: the same addresses every round, but every load must happen
      uint32_t x, y, z, w;
      const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(&data[i * kThreads + threadIdx.x]));
      asm volatile("ld.volatile.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(x), "=r"(y), "=r"(z), "=r"(w)
                   : "r"(address));
      sum += x ^ y ^ z ^ w;
    }
  if (sum == 0x12345678u) *sink = sum;
}

__global__ void nothing() {}

// The shortest of several runs, in seconds.
template <class Work>
double best_seconds(gpu::Stream& stream, Work&& work) {
  gpu::Event begin(gpu::Event::Timing::kTimed), end(gpu::Event::Timing::kTimed);
  double best = 1e9;
  for (int i = 0; i < 10; ++i) {
    begin.record(stream);
    work();
    end.record(stream);
    stream.wait();
    best = std::min(best, gpu::milliseconds_between(begin, end) / 1e3);
  }
  return best;
}

gpu::DeviceBuffer zeroed(int64_t bytes, Machine& machine) {
  gpu::DeviceBuffer buffer = machine.memory().allocate(gpu::ArenaKind::kWorkspace, bytes, machine.stream());
  gpu::fill_bytes(buffer.data(), 0, bytes, machine.stream());
  return buffer;
}

// Far past every cache.
int64_t memory_sample(Machine& machine) {
  return std::clamp<int64_t>(
      machine.stream().device().memory_bytes / 32, int64_t{256} << 20, int64_t{1} << 30);
}

MeasuredRoof measure_copy(Machine& machine) {
  gpu::Stream& stream = machine.stream();
  const int64_t bytes = memory_sample(machine);
  const gpu::DeviceBuffer from = zeroed(bytes, machine), to = zeroed(bytes, machine);
  const int64_t count = bytes / static_cast<int64_t>(sizeof(uint4));
  const double ours = best_seconds(stream, [&] {
    gpu::launch({.kernel = "copy_all",
                    .grid = {(count + kThreads - 1) / kThreads},
                    .block = {kThreads},
                    .numbers = {bytes}},
        stream, copy_all, from.as<uint4>(), to.as<uint4>(), count);
  });
  const double drivers =
      best_seconds(stream, [&] { gpu::copy_on_device(to.data(), from.data(), bytes, stream); });
  const double moved = 2.0 * static_cast<double>(bytes);
  return {.rate = moved / std::min(ours, drivers), .other_rate = moved / drivers};
}

// Bytes/s of reading `bytes` over and over.
double measure_read(int64_t bytes, int passes, Machine& machine) {
  gpu::Stream& stream = machine.stream();
  const gpu::DeviceBuffer data = zeroed(bytes + 256, machine);
  const int64_t blocks = stream.device().num_sms * kBlocksPerSm;
  const auto count = static_cast<int>(bytes / static_cast<int64_t>(sizeof(uint4)));
  const int64_t step = 4 * blocks * kThreads;
  const double seconds = best_seconds(stream, [&] {
    gpu::launch({.kernel = "read_all", .grid = {blocks}, .block = {kThreads}, .numbers = {bytes}}, stream,
        read_all, data.as<uint4>(), count, passes, reinterpret_cast<uint32_t*>(data.data() + bytes));
  });
  return 16.0 * static_cast<double>(count / step * step) * passes / seconds;
}

double measure_l2(Machine& machine) {
  const int64_t bytes = machine.stream().device().l2_bytes / 4 / 4096 * 4096;
  return bytes == 0 ? 0 : measure_read(bytes, 16, machine);
}

double measure_shared(Machine& machine) {
  gpu::Stream& stream = machine.stream();
  const gpu::DeviceBuffer sink = zeroed(256, machine);
  const int64_t blocks = stream.device().num_sms * kBlocksPerSm;
  const double seconds = best_seconds(stream, [&] {
    gpu::launch({.kernel = "read_shared", .grid = {blocks}, .block = {kThreads}}, stream, read_shared,
        sink.as<uint32_t>());
  });
  return 16.0 * kSharedVectors * kSharedRounds * static_cast<double>(blocks) / seconds;
}

double measure_host_link(Machine& machine) {
  constexpr int64_t kBytes = int64_t{128} << 20;
  const gpu::PinnedBuffer host(kBytes);
  const gpu::DeviceBuffer device = zeroed(kBytes, machine);
  const double seconds = best_seconds(
      machine.stream(), [&] { gpu::copy_to_device(device.data(), host.data(), kBytes, machine.stream()); });
  return static_cast<double>(kBytes) / seconds;
}

double measure_launches(Machine& machine) {
  constexpr int kLaunches = 2000;
  const double seconds = best_seconds(machine.stream(), [&] {
    for (int i = 0; i < kLaunches; ++i) gpu::launch({.kernel = "nothing"}, machine.stream(), nothing);
  });
  return kLaunches / seconds;
}

}  // namespace

MeasuredRoof measure_cuda_roof(Roof roof, Machine& machine) {
  MeasuredRoof measured;
  if (machine.has_gpu()) switch (roof) {
      case Roof::kDram:
        measured = measure_copy(machine);
        break;
      case Roof::kDramRead:
        measured.rate = measure_read(memory_sample(machine), 1, machine);
        break;
      case Roof::kL2:
        measured.rate = measure_l2(machine);
        break;
      case Roof::kL1:
        measured.rate = measure_shared(machine);
        break;
      case Roof::kFp32:
        measured.rate = gpu::measure_fma_peak(machine.memory(), machine.stream());
        break;
      case Roof::kTensorBf16:
        measured.rate = measure_tensor_roof(TensorInput::kBf16, machine);
        break;
      case Roof::kTensorFp8:
        measured.rate = measure_tensor_roof(TensorInput::kFp8, machine);
        break;
      case Roof::kHostLink:
        measured.rate = measure_host_link(machine);
        break;
      case Roof::kLaunch:
        measured.rate = measure_launches(machine);
        break;
      default:
        break;
    }
  measured.domain = Domain::kCuda;
  measured.roof = roof;
  return measured;
}

}  // namespace cheetah::lab
