// SPDX-License-Identifier: MIT
// What shares an issue slot with what: integers beside floats, doubles by accident, divisions in index
// arithmetic.
#include "lab/experiments/device_trial.cuh"

namespace cheetah::lab {
namespace {

constexpr int kThreads = 256;
constexpr int kPairs = 2048;  // of operations per thread
constexpr int kChains = 4;

enum class Mix { kFloats, kIntegers, kBoth };

constexpr uint32_t kFactor = 1664525, kAddend = 1013904223;

// In assembly, or the compiler would fold several into one.
__device__ void stir(uint32_t& w) {
  asm("mad.lo.u32 %0, %0, %1, %2;" : "+r"(w) : "n"(kFactor), "n"(kAddend));
}

// kFloats: two multiply-adds a pair; kIntegers: two integer multiply-adds; kBoth: one of each.
template <Mix kMix>
__global__ __launch_bounds__(kThreads) void mix(const float* x, float* y, uint32_t* z) {
  const int t = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  float v[kChains];
  uint32_t w[kChains];
#pragma unroll
  for (int c = 0; c < kChains; ++c) {
    v[c] = x[t] + static_cast<float>(c);
    w[c] = static_cast<uint32_t>(t * kChains + c);
  }
#pragma unroll 4
  for (int k = 0; k < kPairs / kChains; ++k)
#pragma unroll
    for (int c = 0; c < kChains; ++c) {
      if constexpr (kMix != Mix::kIntegers) v[c] = v[c] * 0.999f + 0.001f;
      if constexpr (kMix == Mix::kFloats) v[c] = v[c] * 0.999f + 0.001f;
      if constexpr (kMix != Mix::kFloats) stir(w[c]);
      if constexpr (kMix == Mix::kIntegers) stir(w[c]);
    }
  y[t] = v[0] + v[1] + v[2] + v[3];
  z[t] = w[0] ^ w[1] ^ w[2] ^ w[3];
}

// How many steps of each kind a pair has in a variant.
struct MixedFloats {
  const float* x;
  int steps;
  __device__ double operator()(int64_t t) const {
    double sum = 0;
    for (int c = 0; c < kChains; ++c) {
      double v = static_cast<double>(x[t] + static_cast<float>(c));
      for (int k = 0; k < kPairs / kChains * steps; ++k)
        v = v * static_cast<double>(0.999f) + static_cast<double>(0.001f);
      sum += v;
    }
    return sum;
  }
};
struct MixedIntegers {
  int steps;
  __device__ double operator()(int64_t t) const {
    uint32_t all = 0;
    for (int c = 0; c < kChains; ++c) {
      uint32_t w = static_cast<uint32_t>(t * kChains + c);
      for (int k = 0; k < kPairs / kChains * steps; ++k) w = w * kFactor + kAddend;
      all ^= w;
    }
    return all;
  }
};

std::unique_ptr<Trial> make_mix(const Setup& setup) {
  const int64_t n = setup.stream->device().num_sms * setup.dim(0) * 32;
  auto trial = std::make_unique<DeviceTrial>(setup);
  const auto x = trial->input<float>(n);
  const auto y = trial->output<float>(n);
  const auto z = trial->output<uint32_t>(n);
  constexpr int kFloatSteps[] = {2, 0, 1}, kIntegerSteps[] = {0, 2, 1};
  trial->expect<MixedFloats>(y, {.absolute = 1e-3}, [=](const At& at) {
    return MixedFloats{at[x], kFloatSteps[at.variant()]};
  });
  trial->expect<MixedIntegers>(z, [=](const At& at) { return MixedIntegers{kIntegerSteps[at.variant()]}; });
  trial->set_cost({.roof = Roof::kNone, .items = 2.0 * kPairs * n, .item = "operation"});
  using Kernel = void (*)(const float*, float*, uint32_t*);
  const std::pair<const char*, Kernel> kernels[] = {
      {"floats", mix<Mix::kFloats>}, {"integers", mix<Mix::kIntegers>}, {"both", mix<Mix::kBoth>}};
  for (const auto& [name, kernel] : kernels)
    trial->variant(name, [=, name = name, kernel = kernel](const At& at) {
      gpu::launch({.kernel = name, .grid = {n / kThreads}, .block = {kThreads}}, at.stream(), kernel, at[x],
          at[y], at[z]);
    });
  return trial;
}

constexpr int kSteps = 128;

// A literal without its f makes the whole expression double.
template <class Number>
__global__ __launch_bounds__(kThreads) void literals(const float* x, float* y, int n) {
  const int i = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  if (i >= n) return;
  float v = x[i];
#pragma unroll 8
  for (int k = 0; k < kSteps; ++k)
    v = static_cast<float>(v * static_cast<Number>(0.99) + static_cast<Number>(0.01));
  y[i] = v;
}

struct Literals {
  const float* x;
  __device__ double operator()(int64_t i) const {
    double v = x[i];
    for (int k = 0; k < kSteps; ++k) v = v * 0.99 + 0.01;
    return v;
  }
};

std::unique_ptr<Trial> make_literals(const Setup& setup) {
  const int64_t n = setup.dim(0);
  auto trial = std::make_unique<DeviceTrial>(setup);
  const auto x = trial->input<float>(n);
  const auto y = trial->output<float>(n);
  trial->expect<Literals>(y, [=](const At& at) { return Literals{at[x]}; });
  trial->set_cost({.flops = 2.0 * kSteps * n, .bytes = 8.0 * n, .roof = Roof::kFp32});
  const auto add = [&](const char* name, void (*kernel)(const float*, float*, int)) {
    trial->variant(name, [=](const At& at) {
      gpu::launch({.kernel = name, .grid = {blocks_of(n, kThreads)}, .block = {kThreads}, .numbers = {n}},
          at.stream(), kernel, at[x], at[y], static_cast<int>(n));
    });
  };
  add("double-literals", literals<double>);
  add("float-literals", literals<float>);
  return trial;
}

constexpr int kDivisions = 64;
constexpr uint32_t kDivisor = 96, kPower = 128;

// Quotient and remainder of a divisor the compiler does not know, one it knows, and one by a multiplication.
struct AtRunTime {
  uint32_t divisor;
  __device__ uint32_t quotient(uint32_t v) const { return v / divisor; }
  __device__ uint32_t remainder(uint32_t v) const { return v % divisor; }
};
struct Known {
  uint32_t divisor;  // not looked at
  __device__ uint32_t quotient(uint32_t v) const { return v / kDivisor; }
  __device__ uint32_t remainder(uint32_t v) const { return v % kDivisor; }
};
// v / d for v < 2^31: the high half of v times ceil(2^(32 + s) / d), shifted by s = ceil(log2 d) - 1.
struct Multiplied {
  uint32_t divisor, multiplier, shift;
  __device__ uint32_t quotient(uint32_t v) const { return __umulhi(v, multiplier) >> shift; }
  __device__ uint32_t remainder(uint32_t v) const { return v - quotient(v) * divisor; }
};
struct PowerOfTwo {
  uint32_t divisor;  // not looked at
  __device__ uint32_t quotient(uint32_t v) const { return v / kPower; }
  __device__ uint32_t remainder(uint32_t v) const { return v % kPower; }
};

__host__ __device__ inline uint32_t combined(uint32_t quotient, uint32_t remainder, int k) {
  return (quotient * 7919u + remainder * 104729u + static_cast<uint32_t>(k)) & 0x7FFFFFFFu;
}

template <class Division>
__global__ __launch_bounds__(kThreads) void divide(const uint32_t* x, uint32_t* y, int n, Division by) {
  const int i = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  if (i >= n) return;
  uint32_t v = x[i] & 0x7FFFFFFFu;
#pragma unroll 4
  for (int k = 0; k < kDivisions; ++k) v = combined(by.quotient(v), by.remainder(v), k);
  y[i] = v;
}

struct Divided {
  const uint32_t* x;
  uint32_t divisor;
  __device__ double operator()(int64_t i) const {
    uint32_t v = x[i] & 0x7FFFFFFFu;
    for (int k = 0; k < kDivisions; ++k) v = combined(v / divisor, v % divisor, k);
    return v;
  }
};

Multiplied multiplied_by(uint32_t divisor) {
  uint32_t bits = 0;
  while ((uint64_t{1} << bits) < divisor) ++bits;
  const uint64_t power = uint64_t{1} << (31 + bits);
  return {divisor, static_cast<uint32_t>((power + divisor - 1) / divisor), bits - 1};
}

template <class Division>
void add_division(DeviceTrial& trial, const char* name, Division by, Slot<uint32_t> x, Slot<uint32_t> y) {
  const int64_t n = y.count;
  trial.variant(name, [=](const At& at) {
    gpu::launch({.kernel = name, .grid = {blocks_of(n, kThreads)}, .block = {kThreads}, .numbers = {n}},
        at.stream(), divide<Division>, at[x], at[y], static_cast<int>(n), by);
  });
}

std::unique_ptr<Trial> make_divisions(const Setup& setup) {
  const int64_t n = setup.dim(0);
  auto trial = std::make_unique<DeviceTrial>(setup);
  const auto x = trial->input<uint32_t>(n);
  const auto y = trial->output<uint32_t>(n);
  trial->expect<Divided>(y, [=](const At& at) {
    return Divided{at[x], at.variant() == 3 ? kPower : kDivisor};
  });
  trial->set_cost({.bytes = 8.0 * n, .roof = Roof::kNone, .items = 1.0 * kDivisions * n, .item = "division"});
  add_division(*trial, "run-time", AtRunTime{kDivisor}, x, y);
  add_division(*trial, "known", Known{kDivisor}, x, y);
  add_division(*trial, "multiplied", multiplied_by(kDivisor), x, y);
  add_division(*trial, "power-of-two", PowerOfTwo{kPower}, x, y);
  return trial;
}

const Registered kMix({
    .id = "ch08/dual-issue",
    .title = "Integers beside floats",
    .question = "Does a scheduler issue an integer and a float operation in the same cycle?",
    .mechanism = "Since Volta a scheduler issues one instruction per cycle. Multiply-adds alone fill it; "
                 "integer multiply-adds "
                 "have half the lanes. One of each should take as long as two multiply-adds if issue is the "
                 "limit, and half "
                 "of that if two could be issued at once.",
    .claim = {.text =
                  "A scheduler issues two instructions per cycle from one warp, and instructions per cycle "
                  "go from 1.0 to 1.8.",
        .variant = "both",
        .speedup = 1.8},
    .rotation = Rotation::kHot,
    .variants = {{"floats", "two float multiply-adds"}, {"integers", "two integer multiply-adds"},
        {"both", "one of each"}},
    .sizes = {{"16 warps per SM", {16}}, {"64 warps per SM", {64}}},
    .make = make_mix,
});

const Registered kLiterals({
    .id = "ch08/double-literals",
    .title = "Double literals in float code",
    .question = "What does a literal without its f cost?",
    .mechanism = "The expression is computed in double: two conversions and a multiply-add of half rate on "
                 "this card, where most "
                 "others have a 64th. The conversions run at an eighth of the float rate and weigh more.",
    .claim = {.text = "Lower precision is the first remedy of a compute-bound kernel; no figure is given for "
                      "literals."},
    .variants = {{"double-literals", "0.99 and 0.01"}, {"float-literals", "0.99f and 0.01f"}},
    .sizes = sizes_of({1 << 20, 1 << 24}),
    .tolerance = {.absolute = 1e-4},
    .make = make_literals,
});

const Registered kDivision({
    .id = "ch08/index-division",
    .title = "Divisions in index arithmetic",
    .question = "How expensive are quotient and remainder by a divisor known only at run time?",
    .mechanism = "There is no integer division unit: an unknown divisor takes some twenty instructions with "
                 "a reciprocal, a known "
                 "one a multiplication and a shift, which the host can prepare for an unknown one too, and a "
                 "power of two a "
                 "shift and a mask.",
    .claim = {.text = "Issue slots spent on address arithmetic are lost to the work; no figure is given."},
    .variants = {{"run-time", "an operand the compiler does not know"}, {"known", "a constant"},
        {"multiplied", "the host prepared a multiplier"}, {"power-of-two", "128 instead of 96"}},
    .sizes = sizes_of({1 << 20, 1 << 24}),
    .make = make_divisions,
});

}  // namespace
}  // namespace cheetah::lab
