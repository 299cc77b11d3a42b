// SPDX-License-Identifier: MIT
#pragma once
// For tests: rows and weights in double, rounded as the device stores them.
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/cuda/device_case.h"
#include "tensor/dtype.h"
#include "tensor/float16.h"

namespace cheetah::gpu {

using Rows = std::vector<double>;

inline double bf16(double v) { return bf16_to_f32(f32_to_bf16(static_cast<float>(v))); }
inline void round_all(Rows& rows) {
  for (double& v : rows) v = bf16(v);
}

inline double fp8_value(int code) {
  const int exponent = code >> 3 & 15, fraction = code & 7;
  const double size = exponent == 0 ? std::ldexp(fraction, -9) : std::ldexp(8 + fraction, exponent - 10);
  return code & 0x80 ? -size : size;
}
// The nearest code: codes of positive numbers are in order.
inline uint8_t fp8_code(double value) {
  int low = 0, high = 0x7E;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (fp8_value(middle) <= std::abs(value) ? low : high) = middle;
  }
  const bool up = fp8_value(high) - std::abs(value) < std::abs(value) - fp8_value(low);
  return static_cast<uint8_t>((up ? high : low) | (value < 0 ? 0x80 : 0));
}

// Weights as the device has them and as doubles.
struct HostMatrix {
  int64_t rows = 0, cols = 0;
  std::vector<std::byte> stored;
  std::vector<double> values;
  std::vector<float> scales;

  HostMatrix() = default;
  HostMatrix(int64_t r, int64_t c, DType dtype, uint64_t seed) : rows(r), cols(c) {
    const std::vector<float> numbers = normal_numbers(r * c, seed, 0.7f / std::sqrt(static_cast<float>(c)));
    values.resize(numbers.size());
    if (dtype == DType::kBF16 || dtype == DType::kF16) {
      const bool f16 = dtype == DType::kF16;
      stored.resize(numbers.size() * 2);
      for (size_t i = 0; i < numbers.size(); ++i) {
        const uint16_t bits = f16 ? f32_to_f16(numbers[i]) : f32_to_bf16(numbers[i]);
        std::memcpy(stored.data() + i * 2, &bits, 2);
        values[i] = f16 ? f16_to_f32(bits) : bf16_to_f32(bits);
      }
      return;
    }
    stored.resize(numbers.size());
    for (int64_t row = 0; row < r; ++row) {
      scales.push_back(0.01f + 0.001f * static_cast<float>(row % 7));
      for (int64_t i = row * c; i < (row + 1) * c; ++i) {
        const auto at = static_cast<size_t>(i);
        const uint8_t code = fp8_code(numbers[at] / scales.back());
        stored[at] = static_cast<std::byte>(code);
        values[at] = fp8_value(code) * scales.back();
      }
    }
  }

  // [tokens, rows] of [tokens, cols]
  Rows operator()(const Rows& x) const {
    const int64_t tokens = std::ssize(x) / cols;
    Rows y(static_cast<size_t>(tokens * rows));
    for (int64_t t = 0; t < tokens; ++t)
      for (int64_t r = 0; r < rows; ++r) {
        double sum = 0;
        for (int64_t i = 0; i < cols; ++i)
          sum += values[static_cast<size_t>(r * cols + i)] * x[static_cast<size_t>(t * cols + i)];
        y[static_cast<size_t>(t * rows + r)] = sum;
      }
    return y;
  }
};

}  // namespace cheetah::gpu
