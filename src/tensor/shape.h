// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "base/error.h"
#include "base/format.h"

namespace cheetah {

// Dimensions, outermost first, row-major. Up to eight; trusted (file parsers check products before they build
// one).
class Shape {
 public:
  static constexpr int kMaxRank = 8;
  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) {
    for (const int64_t dim : dims) append(dim);
  }
  void append(int64_t dim) {
    CHEETAH_ASSERT(rank_ < kMaxRank, "too many dimensions");
    dims_[static_cast<size_t>(rank_++)] = dim;
  }
  int rank() const { return rank_; }
  int64_t operator[](int axis) const { return dims_[static_cast<size_t>(axis)]; }
  int64_t back() const { return rank_ ? dims_[static_cast<size_t>(rank_ - 1)] : 1; }
  int64_t elements() const {
    int64_t product = 1;
    for (int i = 0; i < rank_; ++i) product *= dims_[static_cast<size_t>(i)];
    return product;
  }
  std::string text() const {
    std::string out = "[";
    for (int i = 0; i < rank_; ++i) out += (i ? ", " : "") + std::to_string(dims_[static_cast<size_t>(i)]);
    return out + "]";
  }
  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  std::array<int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

}  // namespace cheetah
