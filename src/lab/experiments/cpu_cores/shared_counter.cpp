// SPDX-License-Identifier: MIT
// All threads add to one number: under a lock, with atomic instructions, and each for itself first.
#include <atomic>
#include <mutex>

#include "lab/array_trial.h"

namespace cheetah::lab {
namespace {

template <class Add>
void add_all(const Launch& at, const uint32_t* x, int64_t n, Add&& add) {
  const int threads = at.threads().num_threads();
  at.threads().run([&](int worker) {
    for (int64_t i = n * worker / threads; i < n * (worker + 1) / threads; ++i) add(x[i]);
  });
}

std::unique_ptr<Trial> make(const Setup& setup) {
  const int64_t n = setup.dim(0);
  auto trial = std::make_unique<ArrayTrial>(setup);
  const auto x = trial->input<uint32_t>("x", n, 0, 1000);
  const auto sum = trial->output<uint64_t>("sum", 1);
  trial->set_cost({.roof = Roof::kNone, .items = static_cast<double>(n), .item = "addition"});
  trial->reference([=](const HostArrays& host) {
    for (const uint32_t value : host[x]) host[sum][0] += value;
  });
  trial->variant("lock", [=](const Launch& at) {
    std::mutex mutex;  // what is measured
    uint64_t total = 0;
    add_all(at, at[x], n, [&](uint32_t value) {
      const std::lock_guard lock(mutex);
      total += value;
    });
    *at[sum] = total;
  });
  trial->variant("compare and swap", [=](const Launch& at) {
    std::atomic<uint64_t> total{0};
    add_all(at, at[x], n, [&](uint32_t value) {
      uint64_t seen = total.load(std::memory_order_relaxed);
      while (!total.compare_exchange_weak(seen, seen + value, std::memory_order_relaxed)) {
      }
    });
    *at[sum] = total.load();
  });
  trial->variant("fetch and add", [=](const Launch& at) {
    std::atomic<uint64_t> total{0};
    add_all(at, at[x], n, [&](uint32_t value) { total.fetch_add(value, std::memory_order_relaxed); });
    *at[sum] = total.load();
  });
  trial->variant("own sums", [=](const Launch& at) {
    std::atomic<uint64_t> total{0};
    const int threads = at.threads().num_threads();
    at.threads().run([&](int worker) {
      uint64_t own = 0;
      for (int64_t i = n * worker / threads; i < n * (worker + 1) / threads; ++i) own += at[x][i];
      total.fetch_add(own, std::memory_order_relaxed);
    });
    *at[sum] = total.load();
  });
  return trial;
}

const Registered kSharedCounter({
    .id = "cpu/shared-counter",
    .title = "Contended atomics",
    .question = "What does each way of adding to one shared number cost?",
    .mechanism =
        "Every update must own the number's cache line. A lock takes it several times and may sleep; a "
        "compare "
        "and swap retries when it loses; one atomic addition never does; sums of one's own touch it once.",
    .claim =
        {.text =
                "Aggregate within the block first, then use one atomic: contention falls by the block's size."},
    .domain = Domain::kCpu,
    .rotation = Rotation::kHot,
    .variants = {{"lock", "a mutex around the addition"}, {"compare and swap", "a loop until it succeeds"},
        {"fetch and add", "one atomic instruction"},
        {"own sums", "each thread for itself, then one addition per thread"}},
    .sizes = sizes_of({1 << 12, 1 << 16}),
    .quick = sizes_of({1 << 14}),
    .make = make,
});

}  // namespace
}  // namespace cheetah::lab
