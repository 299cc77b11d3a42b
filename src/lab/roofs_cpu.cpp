// SPDX-License-Identifier: MIT
// Limits of a CPU: memory, the caches of one core, multiply-adds.
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>

#include "base/statistics.h"
#include "hw/ceilings.h"
#include "hw/cpu.h"
#include "lab/roofs.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lab/roofs_cpu.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h, as Highway asks.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace cheetah::lab {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Reads everything `passes` times: eight loads a step, each into a sum of its own, so that loads set the
// pace.
uint64_t read_often(const uint64_t* words, int64_t count, int passes) {
  const hn::ScalableTag<uint64_t> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto a = hn::Zero(d), b = hn::Zero(d), c = hn::Zero(d), e = hn::Zero(d);
  for (int pass = 0; pass < passes; ++pass)
    for (int64_t i = 0; i + 8 * lanes <= count; i += 8 * lanes) {
      const uint64_t* at = words + i;
      a = hn::Add(a, hn::Load(d, at));
      b = hn::Add(b, hn::Load(d, at + lanes));
      c = hn::Add(c, hn::Load(d, at + 2 * lanes));
      e = hn::Add(e, hn::Load(d, at + 3 * lanes));
      a = hn::Xor(a, hn::Load(d, at + 4 * lanes));
      b = hn::Xor(b, hn::Load(d, at + 5 * lanes));
      c = hn::Xor(c, hn::Load(d, at + 6 * lanes));
      e = hn::Xor(e, hn::Load(d, at + 7 * lanes));
    }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(a, b), hn::Add(c, e))));
}

// Copies past the caches: the lines written are not read first.
void copy_streaming(const uint64_t* from, uint64_t* to, int64_t count) {
  const hn::ScalableTag<uint64_t> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i + 4 * lanes <= count; i += 4 * lanes)
    for (int64_t j = i; j < i + 4 * lanes; j += lanes) hn::Stream(hn::Load(d, from + j), d, to + j);
  hwy::FlushStream();
}

}  // namespace HWY_NAMESPACE
}  // namespace cheetah::lab
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cheetah::lab {
namespace {

HWY_EXPORT(read_often);
HWY_EXPORT(copy_streaming);

int64_t level_bytes(int level) {
  for (const CpuCache& cache : read_cpu_info().caches)
    if (cache.level == level && cache.type != "Instruction") return cache.bytes;
  return 0;
}

// Half a level is read over and over: it stays there, and the level above it does not hold it.
double measure_level(int level) {
  const int64_t bytes = level_bytes(level) / 2 / 4096 * 4096;
  if (bytes <= 0 || bytes <= level_bytes(level - 1)) return 0;
  const std::unique_ptr<void, decltype(&std::free)> memory(
      std::aligned_alloc(4096, static_cast<size_t>(bytes)), std::free);
  if (!memory) return 0;
  auto* words = static_cast<uint64_t*>(memory.get());
  const int64_t count = bytes / static_cast<int64_t>(sizeof(uint64_t));
  std::fill_n(words, count, uint64_t{1});
  const int passes = static_cast<int>(std::max<int64_t>(1, (int64_t{8} << 20) / bytes));
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  double best = 0;
  volatile uint64_t sink = 0;
  do {
    const Clock::time_point begin = Clock::now();
    sink = sink + HWY_DYNAMIC_DISPATCH(read_often)(words, count, passes);
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    best = std::max(best, static_cast<double>(bytes) * passes / seconds);
  } while (Clock::now() - start < std::chrono::milliseconds(100));
  return best;
}

constexpr int64_t kPiece = int64_t{2} << 20;
constexpr int64_t kWords = kPiece / static_cast<int64_t>(sizeof(uint64_t));

// Memory in short pieces, by all of the pool's threads: a piece is rarely interrupted, where a pass over everything
// always is on a busy machine. Of the pieces' rates the 90th percentile: the very best may have been cached.
// `pass(worker, piece)` moves `bytes` per thread.
template <class Pass>
double rate_of_pieces(ThreadPool& pool, int64_t pieces, int64_t bytes, const Pass& pass) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> rates;
  const Clock::time_point start = Clock::now();
  for (int64_t piece = 0; Clock::now() - start < std::chrono::milliseconds(200);
       piece = (piece + 1) % pieces) {
    const Clock::time_point begin = Clock::now();
    pool.run([&](int worker) { pass(worker, piece); });
    rates.push_back(static_cast<double>(pool.num_threads() * bytes) /
                    std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return quantile(rates, 0.9);
}

// Reading, or copying with streaming stores: whichever moves more bytes, since memory may take and give at once.
double measure_memory(ThreadPool& pool, Machine& machine) {
  const int64_t threads = pool.num_threads();
  const int64_t pieces = std::max<int64_t>(64, 4 * machine.cpu_cache_bytes() / kPiece / threads);
  const int64_t bytes = threads * pieces * kPiece;
  const std::unique_ptr<void, decltype(&std::free)> memory(
      std::aligned_alloc(static_cast<size_t>(kPiece), static_cast<size_t>(bytes)), std::free);
  if (!memory) return 0;
  madvise(memory.get(), static_cast<size_t>(bytes), MADV_HUGEPAGE);
  auto* words = static_cast<uint64_t*>(memory.get());
  std::fill_n(words, bytes / static_cast<int64_t>(sizeof(uint64_t)), uint64_t{1});
  std::atomic<uint64_t> sink{0};
  const auto at = [&](int64_t worker, int64_t piece) {
    return words + (worker * pieces + piece % pieces) * kWords;
  };
  const double read = rate_of_pieces(pool, pieces, kPiece, [&](int64_t worker, int64_t piece) {
    sink += HWY_DYNAMIC_DISPATCH(read_often)(at(worker, piece), kWords, 1);
  });
  const double copied = rate_of_pieces(pool, pieces, 2 * kPiece, [&](int64_t worker, int64_t piece) {
    HWY_DYNAMIC_DISPATCH(copy_streaming)(at(worker, piece), at(worker, piece + pieces / 2), kWords);
  });
  return std::max(read, copied);
}

double measure(Roof roof, Machine& machine) {
  ThreadPool one({.num_threads = 1, .pin = false});
  switch (roof) {
    case Roof::kDram:
      return measure_memory(machine.threads(), machine);
    case Roof::kCoreDram:
      return measure_memory(one, machine);
    case Roof::kFp32:
      return measure_fma_peak(machine.threads());
    case Roof::kCoreFp32:
      return measure_fma_peak(one);
    case Roof::kL1:
      return measure_level(1);
    case Roof::kL2:
      return measure_level(2);
    case Roof::kL3:
      return measure_level(3);
    default:
      return 0;
  }
}

}  // namespace

MeasuredRoof measure_cpu_roof(Roof roof, Machine& machine) {
  return {.domain = Domain::kCpu, .roof = roof, .rate = measure(roof, machine)};
}

}  // namespace cheetah::lab
#endif
