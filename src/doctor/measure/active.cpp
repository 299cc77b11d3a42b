// SPDX-License-Identifier: MIT
#include "doctor/measure/active.h"

#include <algorithm>
#include <memory>
#include <thread>
#include <vector>

#include "base/format.h"
#include "doctor/facts/gpu.h"
#include "doctor/measure/active_kernels.h"
#include "doctor/measure/timing.h"

namespace cheetah::doctor {
namespace {

constexpr size_t kPeerBytes = size_t{256} << 20;
constexpr int kMostGpus = 16;

// A GPU of the matrix: its context, memory and kernels.
struct Peer {
  Peer(const RuntimeLibrary& cuda, int index)
      : context(cuda, index), memory(cuda, kPeerBytes), kernels(cuda, context) {}
  bool ok() const { return context.ok() && memory.ok() && kernels.ok(); }
  Context context;
  DeviceMemory memory;
  PatternKernels kernels;
};

void test_pair(const RuntimeLibrary& cuda, const Peer& from, const Peer& to, const std::string& name,
    double& wrong, Results& results) {
  const uint64_t words = kPeerBytes / 8, seed = 0x1234567 + static_cast<uint64_t>(name.size()) * 77;
  cuda.call("cuCtxSetCurrent", from.context.handle());
  from.kernels.fill(from.memory.get(), words, 3, seed);
  from.context.wait();
  const auto copy = [&](size_t bytes) {
    return from.context.seconds([&] {
      return cuda.call("cuMemcpyPeerAsync", to.memory.get(), to.context.handle(), from.memory.get(),
          from.context.handle(), bytes, from.context.stream());
    });
  };
  const double all = copy(kPeerBytes), few = copy(8);
  if (all <= 0) return results.skip("peer." + name + ".copy", "the copy failed");
  results.add("peer." + name + ".copy", static_cast<double>(kPeerBytes) / all);
  results.add("peer." + name + ".latency_us", 1e6 * few);
  cuda.call("cuCtxSetCurrent", to.context.handle());
  const double before = to.kernels.wrong();
  to.kernels.check(to.memory.get(), words, 3, seed);
  const double after = to.kernels.wrong();
  wrong = before < 0 || after < 0 ? -1 : wrong < 0 ? wrong : wrong + after - before;
}

// Lets each pair copy directly where it can; the others go through host memory, which shows.
void enable_peers(const RuntimeLibrary& cuda, const std::vector<std::unique_ptr<Peer>>& peers) {
  for (const auto& one : peers)
    for (const auto& other : peers) {
      if (one == other) continue;
      cuda.call("cuCtxSetCurrent", one->context.handle());
      cuda.call("cuCtxEnablePeerAccess", other->context.handle(), 0u);
    }
}

std::vector<int> free_gpus(const MeasureOptions& options, int count, Results& results) {
  const Text nvml = read_nvml(options.nvml_library);
  const auto gpus = parse_gpus(nvml.text, "nvml");
  std::vector<int> idle;
  for (int index = 0; index < std::min(count, kMostGpus); ++index) {
    const bool busy = std::any_of(gpus.begin(), gpus.end(),
        [&](const Gpu& gpu) { return gpu.index == index && !gpu.processes().empty(); });
    if (busy)
      results.skip(
          format("gpu.{}.memory_test.errors", index), "another program uses this GPU: it is left alone");
    else
      idle.push_back(index);
  }
  return idle;
}

}  // namespace

void test_peers(Results& results) {
  const RuntimeLibrary cuda({"libcuda.so.1"});
  int count = 0;
  if (!cuda.call("cuInit", 0u) || !cuda.call("cuDeviceGetCount", &count) || count < 2)
    return results.skip("peer.errors", "there are no two GPUs");
  std::vector<std::unique_ptr<Peer>> peers;
  for (int index = 0; index < std::min(count, kMostGpus); ++index)
    peers.push_back(std::make_unique<Peer>(cuda, index));
  enable_peers(cuda, peers);
  double wrong = 0;
  for (size_t from = 0; from < peers.size(); ++from)
    for (size_t to = 0; to < peers.size(); ++to)
      if (from != to && peers[from]->ok() && peers[to]->ok())
        test_pair(cuda, *peers[from], *peers[to], format("{}.{}", from, to), wrong, results);
  if (wrong < 0)
    results.skip("peer.errors", "a GPU stopped during the test");
  else
    results.add("peer.errors", wrong);
}

std::string run_active_tests(
    const ActiveOptions& options, const std::function<void(const std::string&)>& progress) {
  Results results;
  const RuntimeLibrary cuda({"libcuda.so.1"});
  int count = 0;
  if (!cuda.loaded()) {
    results.skip("gpu.0.memory_test.errors", "there is no CUDA driver");
  } else if (!cuda.call("cuInit", 0u) || !cuda.call("cuDeviceGetCount", &count) || count == 0) {
    results.skip("gpu.0.memory_test.errors", "CUDA does not start");
  } else {
    const std::vector<int> gpus = free_gpus(options.measure, count, results);
    progress(format("memory and compute of {} GPUs at once, {:.0f} s", gpus.size(), options.seconds));
    std::vector<Results> each(gpus.size());
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < gpus.size(); ++i)
      threads.emplace_back([&, i] { test_gpu(gpus[i], options.seconds, options.measure, each[i]); });
    threads.clear();
    for (const Results& one : each) results.append(one);
    progress("copies between GPUs");
    if (static_cast<int>(gpus.size()) == count)
      test_peers(results);
    else
      results.skip("peer.errors", "some GPUs are in use");
  }
  if (options.disk) {
    progress("disk");
    measure_disk(options.measure, results);
  }
  return results.text();
}

}  // namespace cheetah::doctor
