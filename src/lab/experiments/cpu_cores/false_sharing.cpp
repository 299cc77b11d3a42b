// SPDX-License-Identifier: MIT
// Every thread counts for itself; are the counters on lines of their own?
#include <atomic>

#include "lab/array_trial.h"

namespace cheetah::lab {
namespace {

constexpr int64_t kLine = 128;  // bytes: some processors fetch lines in pairs
constexpr int kMostThreads = 64;

// Each worker adds its share of `x` to its own counter, `apart` counters from the next one's.
void count_in_memory(
    const Launch& at, const uint32_t* x, int64_t n, std::atomic<uint64_t>* counters, int64_t apart) {
  const int threads = std::min(at.threads().num_threads(), kMostThreads);
  at.threads().run([&](int worker) {
    if (worker >= threads) return;
    std::atomic<uint64_t>& counter = counters[worker * apart];
    for (int64_t i = n * worker / threads; i < n * (worker + 1) / threads; ++i)
      counter.store(counter.load(std::memory_order_relaxed) + x[i], std::memory_order_relaxed);
  });
}

uint64_t take_all(std::atomic<uint64_t>* counters, int64_t apart) {
  uint64_t total = 0;
  for (int worker = 0; worker < kMostThreads; ++worker) total += counters[worker * apart].exchange(0);
  return total;
}

struct Counters {
  alignas(kLine) std::atomic<uint64_t> all[kMostThreads * kLine / 8] = {};
};

std::unique_ptr<Trial> make(const Setup& setup) {
  const int64_t n = setup.dim(0);
  auto trial = std::make_unique<ArrayTrial>(setup);
  const auto x = trial->input<uint32_t>("x", n, 0, 1000);
  const auto sum = trial->output<uint64_t>("sum", 1);
  trial->set_cost({.roof = Roof::kNone, .items = static_cast<double>(n), .item = "update"});
  trial->reference([=](const HostArrays& host) {
    for (const uint32_t value : host[x]) host[sum][0] += value;
  });
  const auto counters = std::make_shared<Counters>();
  const auto add = [&](std::string_view name, int64_t apart) {
    trial->variant(name, [=](const Launch& at) {
      count_in_memory(at, at[x], n, counters->all, apart);
      *at[sum] = take_all(counters->all, apart);
    });
  };
  add("side by side", 1);
  add("a line apart", kLine / 8);
  trial->variant("in registers", [=](const Launch& at) {
    const int threads = at.threads().num_threads();
    std::atomic<uint64_t> total{0};
    at.threads().run([&](int worker) {
      uint64_t own = 0;
      for (int64_t i = n * worker / threads; i < n * (worker + 1) / threads; ++i) own += at[x][i];
      total.fetch_add(own, std::memory_order_relaxed);
    });
    *at[sum] = total.load();
  });
  return trial;
}

const Registered kFalseSharing({
    .id = "cpu/false-sharing",
    .title = "False sharing",
    .question = "What does it cost when two threads' counters share a cache line?",
    .mechanism =
        "A line can be written by one core at a time. Counters of different threads on one line make it "
        "travel between the cores at every update though no counter is shared.",
    .claim = {.text = "Per-thread data belongs on cache lines of its own."},
    .domain = Domain::kCpu,
    .rotation = Rotation::kHot,
    .variants = {{"side by side", "8-byte counters next to each other"},
        {"a line apart", "each on 128 bytes of its own"},
        {"in registers", "one update of shared memory at the end"}},
    .sizes = sizes_of({1 << 16, 1 << 20}),
    .quick = sizes_of({1 << 18}),
    .make = make,
});

}  // namespace
}  // namespace cheetah::lab
