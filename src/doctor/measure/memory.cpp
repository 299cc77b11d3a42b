// SPDX-License-Identifier: MIT
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <random>
#include <thread>

#include "base/format.h"
#include "base/statistics.h"
#include "doctor/measure.h"
#include "doctor/measure/timing.h"

namespace cheetah::doctor {
namespace {

constexpr size_t kBytesPerThread = size_t{128} << 20;
constexpr size_t kChaseBytes = size_t{256} << 20;
constexpr int kMaxThreads = 32;
constexpr double kSeconds = 0.15;

class Pages {
 public:
  Pages(size_t bytes, int advice)
      : bytes_(bytes),
        data_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    if (data_ != MAP_FAILED && advice != 0) madvise(data_, bytes, advice);
  }
  ~Pages() {
    if (data_ != MAP_FAILED) munmap(data_, bytes_);
  }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  bool ok() const { return data_ != MAP_FAILED; }
  uint64_t* words() const { return static_cast<uint64_t*>(data_); }
  size_t count() const { return bytes_ / sizeof(uint64_t); }

 private:
  size_t bytes_;
  void* data_;
};

uint64_t sum(const uint64_t* words, size_t count) {
  uint64_t a = 0, b = 0, c = 0, d = 0;
  for (size_t i = 0; i + 4 <= count; i += 4) {
    a += words[i];
    b += words[i + 1];
    c += words[i + 2];
    d += words[i + 3];
  }
  return a + b + c + d;
}

// Bytes a second that threads on `readers` read from memory first touched on `owners`.
double read_rate(const std::vector<int>& readers, const std::vector<int>& owners) {
  const int threads = std::min<int>(static_cast<int>(readers.size()), kMaxThreads);
  std::atomic<int> ready{0};
  std::atomic<uint64_t> bytes{0}, keep{0};
  const auto work = [&] {
    Pages pages(kBytesPerThread, MADV_HUGEPAGE);
    run_on(owners);
    if (pages.ok()) std::memset(pages.words(), 1, kBytesPerThread);
    run_on(readers);
    ++ready;
    while (ready < threads) std::this_thread::yield();
    const auto begin = MeasureClock::now();
    while (pages.ok() && seconds_since(begin) < kSeconds) {
      keep += sum(pages.words(), pages.count() / 4);
      keep += sum(pages.words() + pages.count() / 4, pages.count() * 3 / 4);
      bytes += kBytesPerThread;
    }
  };
  std::vector<std::thread> pool;
  for (int i = 0; i < threads; ++i) pool.emplace_back(work);
  for (std::thread& thread : pool) thread.join();
  return static_cast<double>(bytes) / kSeconds;
}

// Nanoseconds of one dependent load in a random cycle through the buffer.
double chase(const Pages& pages) {
  constexpr size_t kStride = 8;  // a cache line
  const size_t lines = pages.count() / kStride;
  std::vector<uint32_t> order(lines);
  std::iota(order.begin(), order.end(), 0u);
  std::mt19937 random(1);
  std::shuffle(order.begin(), order.end(), random);
  for (size_t i = 0; i < lines; ++i)
    pages.words()[order[i] * kStride] = uint64_t{order[(i + 1) % lines]} * kStride;
  uint64_t at = 0;
  constexpr int kBatch = 20000;
  std::vector<double> samples;
  const auto begin = MeasureClock::now();
  while (seconds_since(begin) < kSeconds) {
    const auto start = MeasureClock::now();
    for (int i = 0; i < kBatch; ++i) at = pages.words()[at];
    samples.push_back(seconds_since(start) / kBatch * 1e9);
  }
  return at == ~uint64_t{0} ? 0 : median(samples);
}

double chase_on(const std::vector<int>& reader, const std::vector<int>& owner, int advice) {
  double nanoseconds = 0;
  std::thread([&] {
    run_on(owner);
    const Pages pages(kChaseBytes, advice);
    if (!pages.ok()) return;
    std::memset(pages.words(), 0, kChaseBytes);
    run_on(reader);
    nanoseconds = chase(pages);
  }).join();
  return nanoseconds;
}

}  // namespace

void measure_memory(const CpuFacts& cpu, Results& results) {
  const std::vector<int> allowed = allowed_cpus();
  std::vector<std::vector<int>> nodes;
  for (const NumaNode& node : cpu.nodes.value_or({})) {
    std::vector<int> usable;
    std::set_intersection(
        node.cpus.begin(), node.cpus.end(), allowed.begin(), allowed.end(), std::back_inserter(usable));
    if (!usable.empty()) nodes.push_back(usable);
  }
  if (nodes.empty()) nodes.push_back(allowed);
  for (size_t i = 0; i < nodes.size() && i < 8; ++i) {
    results.add(format("memory.read.{}", i), read_rate(nodes[i], nodes[i]));
    results.add(format("memory.latency_ns.{}", i), chase_on({nodes[i][0]}, {nodes[i][0]}, MADV_HUGEPAGE));
  }
  if (nodes.size() > 1) {
    results.add("memory.remote_read", read_rate(nodes[0], nodes[1]));
    results.add("memory.remote_latency_ns", chase_on({nodes[0][0]}, {nodes[1][0]}, MADV_HUGEPAGE));
  } else {
    results.skip("memory.remote_latency_ns", "there is one NUMA node");
  }
  const double small = chase_on({nodes[0][0]}, {nodes[0][0]}, MADV_NOHUGEPAGE),
               huge = chase_on({nodes[0][0]}, {nodes[0][0]}, MADV_HUGEPAGE);
  if (huge > 0) results.add("memory.huge_page_gain", small / huge);
}

}  // namespace cheetah::doctor
