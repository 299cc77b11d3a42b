// SPDX-License-Identifier: MIT
#pragma once
// A trial made of arrays: declare inputs and outputs, give the oracle and one lambda a variant. The same for
// CPU and CUDA; arrays live where the experiment runs.
//
//   std::unique_ptr<Trial> make(const Setup& setup) {
//     const int64_t n = setup.dim(0);
//     auto trial = std::make_unique<ArrayTrial>(setup);
//     const auto x = trial->input<float>("x", n);    // uniform in [-1, 1)
//     const auto y = trial->output<float>("y", n);
//     trial->set_cost({.flops = 1.0 * n, .bytes = 8.0 * n});
//     trial->reference([=](const HostArrays& host) { ... host[x][i], host[y][i] = ... });
//     trial->variant("scalar", [=](const Launch& at) {
//       gpu::launch({.kernel = "scale", .grid = {(n + 255) / 256}, .block = {256}}, at.stream(), scale,
//       at[x], at[y], n);
//     });
//     return trial;
//   }
#include <cmath>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <type_traits>

#include "base/hash.h"
#include "lab/experiment.h"

namespace cheetah::lab {

// Names an array of a trial; T is what it holds.
template <class T>
struct Array {
  size_t index = 0;
  int64_t count = 0;
};

// Where a variant runs: pointers into one input set, on the device for CUDA.
class Launch {
 public:
  Launch(const Setup& setup, std::byte* const* arrays, int set) : setup_(setup), arrays_(arrays), set_(set) {}
  // Take it out of loops: a compiler does not always.
  template <class T>
  T* operator[](Array<T> array) const {
    return reinterpret_cast<T*>(arrays_[array.index]);
  }
  gpu::Stream& stream() const { return *setup_.stream; }  // CUDA only
  ThreadPool& threads() const { return setup_.threads; }
  int set() const { return set_; }

 private:
  const Setup& setup_;
  std::byte* const* arrays_;
  int set_;
};

// What the oracle reads and writes: one set's inputs on the host, and expected outputs to fill (they start as
// zero).
class HostArrays {
 public:
  explicit HostArrays(std::vector<std::byte*> data) : data_(std::move(data)) {}
  template <class T>
  std::span<T> operator[](Array<T> array) const {
    return {reinterpret_cast<T*>(data_[array.index]), static_cast<size_t>(array.count)};
  }

 private:
  std::vector<std::byte*> data_;
};

// A number as the oracle compares it. Types of other libraries (bf16, fp8) convert through float.
template <class T>
double number_of(const T& value) {
  if constexpr (std::is_arithmetic_v<T>)
    return static_cast<double>(value);
  else
    return static_cast<double>(static_cast<float>(value));
}
template <class T>
T number_to(double value) {
  if constexpr (std::is_arithmetic_v<T>)
    return static_cast<T>(value);
  else
    return T(static_cast<float>(value));
}

// Uniform in [0, 1): a pure function of both, quick enough for large arrays.
inline double uniform_at(uint64_t seed, uint64_t index) {
  return static_cast<double>(split_mix64(seed, index) >> 11) * 0x1p-53;
}

struct WrongElement {
  int64_t index = 0;
  double got = 0, want = 0;
};
// The first element outside the tolerance.
template <class T>
std::optional<WrongElement> first_wrong(
    const std::byte* got, const std::byte* want, int64_t count, const Tolerance& tolerance) {
  const T* a = reinterpret_cast<const T*>(got);
  const T* b = reinterpret_cast<const T*>(want);
  for (int64_t i = 0; i < count; ++i) {
    const double g = number_of(a[i]), w = number_of(b[i]);
    if (!(std::abs(g - w) <= tolerance.absolute + tolerance.relative * std::abs(w)) && !(g == w))
      return WrongElement{.index = i, .got = g, .want = w};
  }
  return std::nullopt;
}

class ArrayTrial final : public Trial {
 public:
  explicit ArrayTrial(const Setup& setup);
  ~ArrayTrial() override;

  // Random numbers, uniform in [low, high); whole numbers for integer types.
  template <class T>
  Array<T> input(std::string name, int64_t count, double low = -1, double high = 1) {
    return input_from<T>(std::move(name), count, [low, high](std::span<T> values, uint64_t seed) {
      for (size_t i = 0; i < values.size(); ++i)
        values[i] = number_to<T>(std::is_integral_v<T> ? std::floor(low + (high - low) * uniform_at(seed, i))
                                                       : low + (high - low) * uniform_at(seed, i));
    });
  }
  // Inputs of another shape (indices, permutations, lists): `fill` writes all of them on the host.
  template <class T>
  Array<T> input_from(
      std::string name, int64_t count, std::function<void(std::span<T>, uint64_t seed)> fill) {
    return {add({.name = std::move(name),
                .kind = Kind::kInput,
                .bytes = bytes_of<T>(count),
                .count = count,
                .fill =
                    [count, fill = std::move(fill)](std::byte* to, uint64_t seed) {
                      fill({reinterpret_cast<T*>(to), static_cast<size_t>(count)}, seed);
                    }}),
        count};
  }
  // Inputs computed from those declared before: the same numbers in another layout or type.
  template <class T>
  Array<T> derived(
      std::string name, int64_t count, std::function<void(std::span<T>, const HostArrays& from)> derive) {
    const auto fill = [count, derive = std::move(derive)](std::byte* to, const HostArrays& from) {
      derive({reinterpret_cast<T*>(to), static_cast<size_t>(count)}, from);
    };
    return {add({.name = std::move(name),
                .kind = Kind::kInput,
                .bytes = bytes_of<T>(count),
                .count = count,
                .derive = fill}),
        count};
  }
  // Poisoned before a check, between guard bands; compared with the oracle's.
  template <class T>
  Array<T> output(std::string name, int64_t count) {
    return {add({.name = std::move(name),
                .kind = Kind::kOutput,
                .bytes = bytes_of<T>(count),
                .count = count,
                .wrong = first_wrong<T>}),
        count};
  }
  // Zeroed by fill(); neither poisoned nor compared.
  template <class T>
  Array<T> scratch(std::string name, int64_t count) {
    return {
        add({.name = std::move(name), .kind = Kind::kScratch, .bytes = bytes_of<T>(count), .count = count}),
        count};
  }

  void set_cost(const Cost& cost);                            // of every variant
  void set_cost(std::string_view variant, const Cost& cost);  // of one
  void set_tolerance(const Tolerance& tolerance);             // instead of the experiment's
  void set_tolerance(std::string_view variant, const Tolerance& tolerance);

  // The definition of right, slow and obvious. Runs once a fill, for one set.
  void reference(std::function<void(const HostArrays&)> oracle);
  // The same on the device, for sizes a host cannot do: a slow and obvious kernel that writes the outputs.
  void device_reference(std::function<void(const Launch&)> oracle);

  // The code of a variant, named as in the experiment. One without code is not applicable at this size.
  void variant(std::string_view name, std::function<void(const Launch&)> run);
  // One that measures itself and returns seconds (what the harness cannot see from outside).
  void timed_variant(std::string_view name, std::function<double(const Launch&)> run);
  void refuse(std::string_view name, std::string why);  // says why one is not applicable
  // Keeps something alive as long as the trial: streams, pools, files, threads.
  void own(std::shared_ptr<void> resource);

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
    std::string name;
    Kind kind = Kind::kInput;
    int64_t bytes = 0;
    int64_t count = 0;
    std::function<void(std::byte*, uint64_t)> fill = {};
    std::function<void(std::byte*, const HostArrays&)> derive = {};
    std::optional<WrongElement> (*wrong)(
        const std::byte*, const std::byte*, int64_t, const Tolerance&) = nullptr;
  };
  struct Code;
  struct Storage;

  template <class T>
  static int64_t bytes_of(int64_t count) {
    return count * static_cast<int64_t>(sizeof(T));
  }
  size_t add(Declared array);
  size_t variant_index(std::string_view name) const;
  std::byte* data(size_t array, int set) const;
  Launch launch_of(int set) const;
  void allocate();  // at the first fill, when all arrays are known
  void fill_set(int set);
  void compute_expected(int set);
  std::optional<std::string> guards_broken(const Declared& array, const std::byte* image) const;

  const Setup setup_;
  std::vector<Declared> arrays_;
  std::unique_ptr<Storage> storage_;
  std::vector<Code> code_;  // one a variant
  std::function<void(const HostArrays&)> reference_;
  std::function<void(const Launch&)> device_reference_;
  std::vector<std::shared_ptr<void>> owned_;
};

}  // namespace cheetah::lab
