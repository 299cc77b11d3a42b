// SPDX-License-Identifier: MIT
// Numbers go from one thread to another: through a locked queue, one by one or in batches, and through a
// ring.
#include <array>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "lab/array_trial.h"

namespace cheetah::lab {
namespace {

constexpr int64_t kBatch = 64;

// What is measured: a vector under a lock, emptied by the reader in one move.
class LockedQueue {
 public:
  void push(std::span<const uint32_t> values) {
    {
      const std::lock_guard lock(mutex_);
      values_.insert(values_.end(), values.begin(), values.end());
    }
    ready_.notify_one();
  }
  void take(std::vector<uint32_t>& into) {
    into.clear();
    std::unique_lock lock(mutex_);
    ready_.wait(lock, [&] { return !values_.empty(); });
    std::swap(into, values_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable ready_;
  std::vector<uint32_t> values_;
};

// One writer, one reader, no lock; a waiting thread lets others run.
class Ring {
 public:
  void push(uint32_t value) {
    const uint64_t at = written_.load(std::memory_order_relaxed);
    while (at - read_.load(std::memory_order_acquire) == kSlots) std::this_thread::yield();
    slots_[at % kSlots] = value;
    written_.store(at + 1, std::memory_order_release);
  }
  uint32_t pop() {
    const uint64_t at = read_.load(std::memory_order_relaxed);
    while (written_.load(std::memory_order_acquire) == at) std::this_thread::yield();
    const uint32_t value = slots_[at % kSlots];
    read_.store(at + 1, std::memory_order_release);
    return value;
  }

 private:
  static constexpr size_t kSlots = 1024;
  alignas(128) std::atomic<uint64_t> written_{0};
  alignas(128) std::atomic<uint64_t> read_{0};
  alignas(128) std::array<uint32_t, kSlots> slots_{};
};

uint64_t through_queue(const uint32_t* x, int64_t n, int64_t batch) {
  LockedQueue queue;
  uint64_t sum = 0;
  std::jthread reader([&] {
    std::vector<uint32_t> got;
    for (int64_t left = n; left > 0; left -= static_cast<int64_t>(got.size())) {
      queue.take(got);
      for (const uint32_t value : got) sum += value;
    }
  });
  for (int64_t i = 0; i < n; i += batch) queue.push({x + i, static_cast<size_t>(std::min(batch, n - i))});
  reader.join();
  return sum;
}

uint64_t through_ring(const uint32_t* x, int64_t n) {
  const auto ring = std::make_unique<Ring>();
  uint64_t sum = 0;
  std::jthread reader([&] {
    for (int64_t i = 0; i < n; ++i) sum += ring->pop();
  });
  for (int64_t i = 0; i < n; ++i) ring->push(x[i]);
  reader.join();
  return sum;
}

std::unique_ptr<Trial> make(const Setup& setup) {
  const int64_t n = setup.dim(0);
  auto trial = std::make_unique<ArrayTrial>(setup);
  const auto x = trial->input<uint32_t>("x", n, 0, 1000);
  const auto sum = trial->output<uint64_t>("sum", 1);
  trial->set_cost({.roof = Roof::kNone, .items = static_cast<double>(n), .item = "message"});
  trial->reference([=](const HostArrays& host) {
    for (const uint32_t value : host[x]) host[sum][0] += value;
  });
  trial->variant("locked queue", [=](const Launch& at) { *at[sum] = through_queue(at[x], n, 1); });
  trial->variant("locked, batches", [=](const Launch& at) { *at[sum] = through_queue(at[x], n, kBatch); });
  trial->variant("ring", [=](const Launch& at) { *at[sum] = through_ring(at[x], n); });
  return trial;
}

const Registered kHandOff({
    .id = "cpu/hand-off",
    .title = "Hand-off between threads",
    .question = "What does it cost to hand a message to another thread?",
    .mechanism =
        "A lock and a wake-up cost a microsecond or more when the reader sleeps; a batch pays it once for "
        "many; a ring for one writer and one reader moves two cache lines and wakes no one.",
    .claim = {.text = "Producer and consumer should overlap through a buffer, not take turns."},
    .domain = Domain::kCpu,
    .rotation = Rotation::kHot,
    .variants = {{"locked queue", "a mutex and a condition variable, one message a time"},
        {"locked, batches", "the same, 64 messages a time"}, {"ring", "one writer, one reader, no lock"}},
    .sizes = sizes_of({1 << 14, 1 << 17}),
    .quick = sizes_of({1 << 14}),
    .make = make,
});

}  // namespace
}  // namespace cheetah::lab
