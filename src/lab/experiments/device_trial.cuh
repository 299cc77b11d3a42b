// SPDX-License-Identifier: MIT
#pragma once
// A trial whose inputs are made and whose outputs are compared on the device: sizes far past the caches cost
// milliseconds, not seconds of host time. Otherwise as ArrayTrial.
//
//   struct Doubled {  // the oracle: element i, slowly and obviously
//     const float* x;
//     __device__ double operator()(int64_t i) const { return 2.0 * x[i]; }
//   };
//   std::unique_ptr<Trial> make(const Setup& setup) {
//     const int64_t n = setup.dim(0);
//     auto trial = std::make_unique<DeviceTrial>(setup);
//     const auto x = trial->input<float>(n);
//     const auto y = trial->output<float>(n);
//     trial->expect<Doubled>(y, [=](const At& at) { return Doubled{at[x]}; });
//     trial->set_cost({.flops = 1.0 * n, .bytes = 8.0 * n});
//     trial->variant("scalar", [=](const At& at) { gpu::launch({...}, at.stream(), scale, at[x], at[y], n);
//     }); return trial;
//   }
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "gpu/launch.cuh"
#include "lab/experiment.h"

namespace cheetah::lab {

// Names an array of a trial; T is what it holds.
template <class T>
struct Slot {
  size_t index = 0;
  int64_t count = 0;
};

// Blocks that cover n things.
inline int64_t blocks_of(int64_t n, int64_t per_block) { return (n + per_block - 1) / per_block; }

class DeviceTrial;

// Where a variant or the oracle runs: pointers into one input set.
class At {
 public:
  At(const DeviceTrial& trial, int set, int variant) : trial_(trial), set_(set), variant_(variant) {}
  template <class T>
  T* operator[](Slot<T> slot) const;
  gpu::Stream& stream() const;
  int set() const { return set_; }
  int variant() const { return variant_; }

 private:
  const DeviceTrial& trial_;
  int set_;
  int variant_;
};

// 64 random bits, a pure function of both.
__host__ __device__ inline uint64_t mixed(uint64_t seed, uint64_t index) {
  uint64_t z = seed + 0x9E3779B97F4A7C15u * (index + 1);  // SplitMix64's mixing
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}
// Uniform in [-1, 1) in steps of 2^-23, so that F32 holds it exactly.
__host__ __device__ inline float uniform(uint64_t seed, uint64_t index) {
  return static_cast<float>(mixed(seed, index) >> 40) * 0x1p-23f - 1.f;
}

// Numbers in [-1, 1) for floating types, all bits random for whole ones.
template <class T>
struct Random {
  __device__ T operator()(uint64_t seed, int64_t i) const {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(mixed(seed, static_cast<uint64_t>(i)) >> 20);
    else
      return static_cast<T>(uniform(seed, static_cast<uint64_t>(i)));
  }
};

struct FirstWrong {
  unsigned long long index;  // ~0: none
  double got, want;
};

namespace device_trial {

template <class T, class Make>
__global__ void make_each(T* to, int64_t count, Make make, uint64_t seed) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step)
    to[i] = make(seed, i);
}

template <class T>
__device__ double number(T value) {
  if constexpr (std::is_arithmetic_v<T>)
    return static_cast<double>(value);
  else
    return static_cast<double>(static_cast<float>(value));
}

// NaN never passes: the comparison is written so that it fails.
template <class T, class Want>
__global__ void find_wrong(const T* got, int64_t count, Want want, Tolerance tolerance, FirstWrong* found) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    const double g = number(got[i]), w = static_cast<double>(want(i));
    if (!(fabs(g - w) <= tolerance.absolute + tolerance.relative * fabs(w)))
      atomicMin(&found->index, static_cast<unsigned long long>(i));
  }
}

template <class T, class Want>
__global__ void describe_wrong(const T* got, Want want, FirstWrong* found) {
  if (found->index == ~0ull) return;
  found->got = number(got[found->index]);
  found->want = static_cast<double>(want(static_cast<int64_t>(found->index)));
}

inline gpu::LaunchConfig over(const char* kernel, int64_t count) {
  constexpr int64_t kThreads = 256, kMostBlocks = 1 << 16;
  const int64_t blocks = (count + kThreads - 1) / kThreads;
  return {.kernel = kernel, .grid = {blocks < kMostBlocks ? blocks : kMostBlocks}, .block = {kThreads}};
}

}  // namespace device_trial

// Owns one or more sets of arrays on the device. Arrays are declared before the first fill.
class DeviceTrial final : public Trial {
 public:
  explicit DeviceTrial(const Setup& setup);
  ~DeviceTrial() override;

  // make(seed, i) gives element i. Every array of a set gets the same seed where `same_seed`, so that two
  // layouts of the same numbers can be made.
  template <class T, class Make>
  Slot<T> input_from(int64_t count, Make make, bool same_seed = false) {
    return {add({.kind = Kind::kInput,
                .bytes = count * static_cast<int64_t>(sizeof(T)),
                .fill =
                    [make, count, this, same_seed, index = arrays_.size()](std::byte* to, uint64_t seed) {
                      gpu::launch(device_trial::over("make_each", count), stream(),
                          device_trial::make_each<T, Make>, reinterpret_cast<T*>(to), count, make,
                          same_seed ? seed : mixed(seed, index));
                    }}),
        count};
  }
  template <class T>
  Slot<T> input(int64_t count) {
    return input_from<T>(count, Random<T>{});
  }
  // Poisoned before a check, with guard bands around; compared once expect() named the oracle.
  template <class T>
  Slot<T> output(int64_t count) {
    return {add({.kind = Kind::kOutput, .bytes = count * static_cast<int64_t>(sizeof(T))}), count};
  }
  // Zeroed by fill(); neither poisoned nor compared.
  template <class T>
  Slot<T> scratch(int64_t count) {
    return {add({.kind = Kind::kScratch, .bytes = count * static_cast<int64_t>(sizeof(T))}), count};
  }

  // want_at(at) gives a function of the element's index that runs on the device. (Named, not deduced: nvcc's
  // stubs cannot spell a type that comes from a lambda.)
  template <class Want, class T>
  void expect(Slot<T> slot, std::function<Want(const At&)> want_at) {
    expect<Want>(slot, tolerance_, std::move(want_at));
  }
  template <class Want, class T>
  void expect(Slot<T> slot, Tolerance tolerance, std::function<Want(const At&)> want_at) {
    arrays_[slot.index].find_wrong = [slot, tolerance, want_at = std::move(want_at)](
                                         const At& at, FirstWrong* found) {
      const Want want = want_at(at);
      gpu::launch(device_trial::over("find_wrong", slot.count), at.stream(),
          device_trial::find_wrong<T, Want>, at[slot], slot.count, want, tolerance, found);
      gpu::launch({.kernel = "describe_wrong", .grid = {1}, .block = {1}}, at.stream(),
          device_trial::describe_wrong<T, Want>, at[slot], want, found);
    };
  }

  void set_cost(const Cost& cost);
  void set_cost(std::string_view variant, const Cost& cost);
  // Bytes of a set that the leanest variant touches, where that is less than all: sets must outgrow the
  // caches for it too.
  void set_touched(int64_t bytes) { touched_bytes_ = bytes; }

  // The code of a variant, named as in the experiment. One without code is not applicable at this size.
  void variant(std::string_view name, std::function<void(const At&)> run);
  // One that measures itself and returns seconds.
  void timed_variant(std::string_view name, std::function<double(const At&)> run);
  void refuse(std::string_view name, std::string why);
  // Runs after the inputs of a set are filled: what must be prepared outside the time.
  void after_fill(std::function<void(const At&)> prepare) { after_fill_ = std::move(prepare); }
  void own(std::shared_ptr<void> resource) { owned_.push_back(std::move(resource)); }

  int64_t dim(size_t index) const { return setup_.dim(index); }
  gpu::Stream& stream() const { return *setup_.stream; }
  std::byte* data(size_t array, int set) const;

  int num_sets() const override;
  void fill(uint64_t seed) override;
  void poison(int set) override;
  std::optional<double> launch(int variant, int set) override;
  std::optional<std::string> check(int variant, int set) override;
  Cost cost(int variant) const override;
  std::optional<std::string> refusal(int variant) const override;

 private:
  enum class Kind { kInput, kOutput, kScratch };
  struct Declared {
    Kind kind = Kind::kInput;
    int64_t bytes = 0;
    std::function<void(std::byte*, uint64_t)> fill = {};
    std::function<void(const At&, FirstWrong*)> find_wrong = {};
  };
  struct Code {
    std::function<void(const At&)> run = {};
    std::function<double(const At&)> timed = {};
    std::string refusal = {};
    std::optional<Cost> cost = {};
  };
  size_t add(Declared array);
  Code& code_of(std::string_view name);
  void allocate();
  bool guards_hold(size_t array, int set) const;

  const Setup setup_;
  const Tolerance tolerance_;
  std::vector<Declared> arrays_;
  std::vector<gpu::DeviceBuffer> buffers_;  // [set][array]
  gpu::DeviceBuffer found_;                 // FirstWrong
  std::vector<Code> code_;                  // one a variant
  Cost cost_ = {};
  int64_t touched_bytes_ = 0;
  std::function<void(const At&)> after_fill_;
  std::vector<std::shared_ptr<void>> owned_;
};

template <class T>
T* At::operator[](Slot<T> slot) const {
  return reinterpret_cast<T*>(trial_.data(slot.index, set_));
}

}  // namespace cheetah::lab
