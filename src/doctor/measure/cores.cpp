// SPDX-License-Identifier: MIT
#include <time.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "base/statistics.h"
#include "doctor/measure.h"
#include "doctor/measure/timing.h"

namespace cheetah::doctor {
namespace {

constexpr int kMaxPairs = 15;
constexpr double kPairSeconds = 0.03, kJitterSeconds = 0.25;

// Nanoseconds for a value to go from one CPU to another: half a round trip, the fastest of several batches.
double hand_over(int first, int second) {
  alignas(64) std::atomic<int> turn{0};
  std::atomic<bool> stop{false};
  std::thread other([&] {
    run_on({second});
    while (!stop.load(std::memory_order_relaxed)) {
      int expected = 1;
      turn.compare_exchange_weak(expected, 0, std::memory_order_acq_rel);
    }
  });
  double best = 1e12;
  std::thread([&] {
    run_on({first});
    constexpr int kRounds = 200;
    const auto begin = MeasureClock::now();
    while (seconds_since(begin) < kPairSeconds) {
      const auto start = MeasureClock::now();
      for (int i = 0; i < kRounds; ++i) {
        turn.store(1, std::memory_order_release);
        while (turn.load(std::memory_order_acquire) != 0 && seconds_since(begin) < 1) {
        }
      }
      best = std::min(best, seconds_since(start) / kRounds / 2 * 1e9);
    }
  }).join();
  stop = true;
  other.join();
  return best;
}

void measure_pairs(const std::vector<int>& cpus, Results& results) {
  if (cpus.size() < 2) {
    results.skip("core.hand_over_ns.max", "there is one CPU");
    return;
  }
  std::vector<double> times;
  const size_t step = std::max<size_t>(1, cpus.size() / kMaxPairs);
  for (size_t i = 1; i < cpus.size(); i += step) times.push_back(hand_over(cpus[0], cpus[i]));
  results.add("core.hand_over_ns.min", *std::min_element(times.begin(), times.end()));
  results.add("core.hand_over_ns.max", *std::max_element(times.begin(), times.end()));
}

// A thread that reads the clock without pause sees each time it was stopped.
void measure_jitter(Results& results) {
  std::vector<double> gaps;
  const auto begin = MeasureClock::now();
  auto last = begin;
  double stolen = 0, longest = 0;
  while (seconds_since(begin) < kJitterSeconds) {
    const auto now = MeasureClock::now();
    const double us = std::chrono::duration<double, std::micro>(now - last).count();
    longest = std::max(longest, us);
    if (us > 5) stolen += us;
    last = now;
  }
  results.add("core.jitter_max_us", longest);
  results.add("core.stolen_share", stolen / (kJitterSeconds * 1e6));
}

void measure_wake_up(Results& results) {
  std::vector<double> late;
  for (int i = 0; i < 400; ++i) {
    const timespec nap{0, 100'000};
    const auto begin = MeasureClock::now();
    nanosleep(&nap, nullptr);
    late.push_back(seconds_since(begin) * 1e6 - 100);
  }
  results.add("core.wake_us.p50", quantile(late, 0.5));
  results.add("core.wake_us.p99", quantile(late, 0.99));
}

}  // namespace

void measure_cores(const CpuFacts&, Results& results) {
  measure_pairs(allowed_cpus(), results);
  measure_jitter(results);
  measure_wake_up(results);
}

}  // namespace cheetah::doctor
