// SPDX-License-Identifier: MIT
#pragma once
// For tests: an output that starts as NaN between two bands of guards, so that a number not written and a
// number written outside are both seen.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace cheetah {

class Guarded {
 public:
  explicit Guarded(int64_t count) : values_(static_cast<size_t>(count + 2 * kBand), kGuard) {
    for (int64_t i = 0; i < count; ++i) data()[i] = std::numeric_limits<float>::quiet_NaN();
  }
  float* data() { return values_.data() + kBand; }
  const float* data() const { return values_.data() + kBand; }
  int64_t size() const { return static_cast<int64_t>(values_.size()) - 2 * kBand; }
  void expect_guards_whole() const {
    for (int64_t i = 0; i < kBand; ++i) {
      EXPECT_EQ(values_[static_cast<size_t>(i)], kGuard) << "written before the beginning";
      EXPECT_EQ(values_[values_.size() - 1 - static_cast<size_t>(i)], kGuard) << "written past the end";
    }
  }

 private:
  static constexpr int64_t kBand = 64;
  static constexpr float kGuard = -1234.5f;
  std::vector<float> values_;
};

// |actual - expected| <= absolute + relative * |expected| everywhere; the worst offender is named. NaN fails.
inline void expect_close(
    const float* actual, const float* expected, int64_t count, double absolute, double relative) {
  int64_t worst = -1;
  double worst_excess = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double excess = std::abs(static_cast<double>(actual[i]) - expected[i]) - absolute -
                          relative * std::abs(static_cast<double>(expected[i]));
    if (excess <= worst_excess) continue;
    worst = i;
    worst_excess = excess;
    if (std::isnan(excess)) break;
  }
  if (worst >= 0) {
    ADD_FAILURE() << "at " << worst << " of " << count << ": " << actual[worst] << ", expected "
                  << expected[worst];
  }
}

}  // namespace cheetah
