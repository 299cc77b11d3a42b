// SPDX-License-Identifier: MIT
#include "hw/ceilings.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include "hw/cpu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "hw/ceilings.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h, as Highway asks.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace cheetah {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// The sum of all words: four chains, so that loads, not additions, set the pace.
uint64_t read_all(const uint64_t* words, int64_t count) {
  const hn::ScalableTag<uint64_t> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto a = hn::Zero(d), b = hn::Zero(d), c = hn::Zero(d), e = hn::Zero(d);
  for (int64_t i = 0; i + 4 * lanes <= count; i += 4 * lanes) {
    a = hn::Add(a, hn::Load(d, words + i));
    b = hn::Add(b, hn::Load(d, words + i + lanes));
    c = hn::Add(c, hn::Load(d, words + i + 2 * lanes));
    e = hn::Add(e, hn::Load(d, words + i + 3 * lanes));
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(a, b), hn::Add(c, e))));
}

// Twelve independent chains cover two units of up to five cycles' latency; their different starts keep the
// compiler from computing one for all. Returns operations done.
double multiply_add(int64_t rounds, float* sink) {
  const hn::ScalableTag<float> d;
  const auto scale = hn::Set(d, 0.999f), step = hn::Set(d, 0.001f);
  auto a0 = hn::Iota(d, 0), a1 = hn::Iota(d, 1), a2 = hn::Iota(d, 2), a3 = hn::Iota(d, 3);
  auto a4 = hn::Iota(d, 4), a5 = hn::Iota(d, 5), b0 = hn::Iota(d, 6), b1 = hn::Iota(d, 7);
  auto b2 = hn::Iota(d, 8), b3 = hn::Iota(d, 9), b4 = hn::Iota(d, 10), b5 = hn::Iota(d, 11);
  for (int64_t i = 0; i < rounds; ++i) {
    a0 = hn::MulAdd(a0, scale, step);
    a1 = hn::MulAdd(a1, scale, step);
    a2 = hn::MulAdd(a2, scale, step);
    a3 = hn::MulAdd(a3, scale, step);
    a4 = hn::MulAdd(a4, scale, step);
    a5 = hn::MulAdd(a5, scale, step);
    b0 = hn::MulAdd(b0, scale, step);
    b1 = hn::MulAdd(b1, scale, step);
    b2 = hn::MulAdd(b2, scale, step);
    b3 = hn::MulAdd(b3, scale, step);
    b4 = hn::MulAdd(b4, scale, step);
    b5 = hn::MulAdd(b5, scale, step);
  }
  const auto a = hn::Add(hn::Add(hn::Add(a0, a1), hn::Add(a2, a3)), hn::Add(a4, a5));
  const auto b = hn::Add(hn::Add(hn::Add(b0, b1), hn::Add(b2, b3)), hn::Add(b4, b5));
  *sink = hn::GetLane(hn::SumOfLanes(d, hn::Add(a, b)));
  return static_cast<double>(rounds) * 12 * 2 * static_cast<double>(hn::Lanes(d));
}

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3_DL

// Highway 1.0.3 names other extensions in this target's options than these, so the compiler would refuse the
// intrinsics.
struct Int8Dots {
  using Sum = __m512i;
  static constexpr double kOperations = 2 * 64;
  static bool present() { return true; }
  static Sum first(int chain) { return _mm512_set1_epi32(chain); }
  static HWY_INLINE void add(Sum& sum, __m512i x) { asm("vpdpbusd %1, %1, %0" : "+v"(sum) : "v"(x)); }
  static float reduce(Sum sum) { return static_cast<float>(_mm512_reduce_add_epi32(sum)); }
};
struct Bf16Dots {
  using Sum = __m512;
  static constexpr double kOperations = 2 * 32;
  static bool present() { return __builtin_cpu_supports("avx512bf16"); }
  static Sum first(int chain) { return _mm512_set1_ps(static_cast<float>(chain)); }
  static HWY_INLINE void add(Sum& sum, __m512i x) { asm("vdpbf16ps %1, %1, %0" : "+v"(sum) : "v"(x)); }
  static float reduce(Sum sum) { return _mm512_reduce_add_ps(sum); }
};

// Twelve chains in variables of their own: an array of them would live in memory.
template <class Dots>
double dot(int64_t rounds, float* sink) {
  if (!Dots::present()) return 0;
  const __m512i x = _mm512_set1_epi32(static_cast<int>(rounds & 1));
  auto s0 = Dots::first(0), s1 = Dots::first(1), s2 = Dots::first(2), s3 = Dots::first(3);
  auto s4 = Dots::first(4), s5 = Dots::first(5), s6 = Dots::first(6), s7 = Dots::first(7);
  auto s8 = Dots::first(8), s9 = Dots::first(9), s10 = Dots::first(10), s11 = Dots::first(11);
  for (int64_t i = 0; i < rounds; ++i) {
    Dots::add(s0, x);
    Dots::add(s1, x);
    Dots::add(s2, x);
    Dots::add(s3, x);
    Dots::add(s4, x);
    Dots::add(s5, x);
    Dots::add(s6, x);
    Dots::add(s7, x);
    Dots::add(s8, x);
    Dots::add(s9, x);
    Dots::add(s10, x);
    Dots::add(s11, x);
  }
  for (const auto& sum : {s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11}) *sink += Dots::reduce(sum);
  return static_cast<double>(rounds) * 12 * Dots::kOperations;
}
double dot_int8(int64_t rounds, float* sink) { return dot<Int8Dots>(rounds, sink); }
double dot_bf16(int64_t rounds, float* sink) { return dot<Bf16Dots>(rounds, sink); }

#else

double dot_int8(int64_t, float*) { return 0; }
double dot_bf16(int64_t, float*) { return 0; }

#endif

}  // namespace HWY_NAMESPACE
}  // namespace cheetah
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cheetah {
namespace {

HWY_EXPORT(read_all);
HWY_EXPORT(multiply_add);
HWY_EXPORT(dot_int8);
HWY_EXPORT(dot_bf16);

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Memory in huge pages where the kernel gives them, so that the measure is of the memory and not of the TLB.
class Region {
 public:
  explicit Region(int64_t bytes) : bytes_(static_cast<size_t>(bytes)) {
    data_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data_ == MAP_FAILED) throw std::bad_alloc();
    madvise(data_, bytes_, MADV_HUGEPAGE);
  }
  ~Region() { munmap(data_, bytes_); }
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
  uint64_t* words() const { return static_cast<uint64_t*>(data_); }

 private:
  void* data_ = nullptr;
  size_t bytes_;
};

// Each worker's result has a cache line of its own.
struct alignas(64) Slot {
  uint64_t sum = 0;
  double operations = 0;
  float sink = 0;
};

// The best of `pass` repeated for `seconds`: others on the machine only ever take away.
template <class Pass>
double best_rate(double seconds, Pass&& pass) {
  const Clock::time_point start = Clock::now();
  double best = 0;
  do {
    const Clock::time_point begin = Clock::now();
    const double amount = pass();
    best = std::max(best, amount / seconds_since(begin));
  } while (seconds_since(start) < seconds);
  return best;
}

// `compute(rounds, sink)` returns the operations it did.
template <class Compute>
double measure_peak(ThreadPool& pool, const Compute& compute) {
  constexpr int64_t kRounds = 1 << 20;  // about two milliseconds
  std::vector<Slot> slots(static_cast<size_t>(pool.num_threads()));
  return best_rate(0.2, [&] {
    pool.run([&](int worker) {
      Slot& slot = slots[static_cast<size_t>(worker)];
      slot.operations = compute(kRounds, &slot.sink);
    });
    double operations = 0;
    for (const Slot& slot : slots) operations += slot.operations;
    return operations;
  });
}

}  // namespace

double measure_read_bandwidth(ThreadPool& pool) {
  constexpr int64_t kSliceAlign = 4096;
  const int64_t wanted = std::max(int64_t{256} << 20, 4 * last_level_cache_bytes());
  const int64_t bytes = std::min(wanted, available_memory_bytes() / 4);
  const int64_t slice = std::max(kSliceAlign, bytes / pool.num_threads() / kSliceAlign * kSliceAlign);
  const int64_t words = slice / static_cast<int64_t>(sizeof(uint64_t));
  const Region region(slice * pool.num_threads());
  std::vector<Slot> slots(static_cast<size_t>(pool.num_threads()));
  pool.run([&](int worker) {  // first touch: each slice lands on its reader's memory node
    std::fill_n(region.words() + worker * words, words, uint64_t{1});
  });
  return best_rate(0.25, [&] {
    pool.run([&](int worker) {
      slots[static_cast<size_t>(worker)].sum +=
          HWY_DYNAMIC_DISPATCH(read_all)(region.words() + worker * words, words);
    });
    return static_cast<double>(slice * pool.num_threads());
  });
}

double measure_fma_peak(ThreadPool& pool) {
  return measure_peak(
      pool, [](int64_t rounds, float* sink) { return HWY_DYNAMIC_DISPATCH(multiply_add)(rounds, sink); });
}
double measure_bf16_dot_peak(ThreadPool& pool) {
  return measure_peak(
      pool, [](int64_t rounds, float* sink) { return HWY_DYNAMIC_DISPATCH(dot_bf16)(rounds, sink); });
}
double measure_int8_dot_peak(ThreadPool& pool) {
  return measure_peak(
      pool, [](int64_t rounds, float* sink) { return HWY_DYNAMIC_DISPATCH(dot_int8)(rounds, sink); });
}

}  // namespace cheetah
#endif
