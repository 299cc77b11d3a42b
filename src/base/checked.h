// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstdint>
#include <utility>

#include "base/error.h"
#include "base/format.h"

namespace cheetah {

// An integer whose arithmetic throws instead of wrapping. Parsers of untrusted files do all size arithmetic
// in it: a hand-written overflow check is easy to forget or bypass; one type used everywhere is
// not.
template <std::integral T>
class Checked {
 public:
  constexpr Checked() = default;
  template <std::integral U>
  constexpr Checked(U value) : value_(narrow(value)) {}  // NOLINT: implicit on purpose, it checks

  constexpr T get() const { return value_; }
  template <std::integral U>
  constexpr U to() const {
    return Checked<U>(value_).get();
  }

  friend constexpr Checked operator+(Checked a, Checked b) {
    T result;
    if (__builtin_add_overflow(a.value_, b.value_, &result)) overflow(a.value_, "+", b.value_);
    return Checked(result);
  }
  friend constexpr Checked operator-(Checked a, Checked b) {
    T result;
    if (__builtin_sub_overflow(a.value_, b.value_, &result)) overflow(a.value_, "-", b.value_);
    return Checked(result);
  }
  friend constexpr Checked operator*(Checked a, Checked b) {
    T result;
    if (__builtin_mul_overflow(a.value_, b.value_, &result)) overflow(a.value_, "*", b.value_);
    return Checked(result);
  }
  friend constexpr Checked operator/(Checked a, Checked b) {
    if (b.value_ == 0) throw Error(format("size arithmetic: {} / 0", a.value_));
    return Checked(static_cast<T>(a.value_ / b.value_));
  }
  constexpr Checked& operator+=(Checked other) { return *this = *this + other; }
  constexpr Checked& operator*=(Checked other) { return *this = *this * other; }
  friend constexpr auto operator<=>(Checked, Checked) = default;

  // The next multiple of a power of two.
  constexpr Checked aligned_to(T alignment) const {
    const Checked padded = *this + Checked(static_cast<T>(alignment - 1));
    return Checked(static_cast<T>(padded.value_ & static_cast<T>(~(alignment - 1))));
  }

 private:
  template <std::integral U>
  static constexpr T narrow(U value) {
    if (!std::in_range<T>(value)) throw Error(format("size {} is out of range", value));
    return static_cast<T>(value);
  }
  [[noreturn]] static void overflow(T a, const char* op, T b) {
    throw Error(format("size arithmetic overflows: {} {} {}", a, op, b));
  }
  T value_ = 0;
};

using CheckedSize = Checked<uint64_t>;

}  // namespace cheetah
