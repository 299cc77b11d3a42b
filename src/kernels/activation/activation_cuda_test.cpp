// SPDX-License-Identifier: MIT
#include "kernels/activation/activation_cuda.h"

#include <gtest/gtest.h>

#include "kernels/cuda/device_case.h"

namespace cheetah::gpu {
namespace {

constexpr Activation kKinds[] = {Activation::kSilu, Activation::kGeluTanh, Activation::kGeluErf,
    Activation::kQuickGelu, Activation::kRelu};

template <class T>
class ActivationCuda : public testing::Test {};
using Numbers = testing::Types<float, Bf16>;
TYPED_TEST_SUITE(ActivationCuda, Numbers);

template <class T>
double bound(double expected) {
  return 2e-6 + (2e-6 + rounding_of<T>()) * std::abs(expected);
}

TYPED_TEST(ActivationCuda, EqualsTheReferenceForEveryKind) {
  for (const Activation kind : kKinds) {
    DeviceCase device;
    std::vector<float> x = rounded_to<TypeParam>(normal_numbers(1003, 7, 4.f));
    x[0] = 0.f;
    x[1] = 80.f;
    x[2] = -80.f;
    TypeParam* data = device.upload(numbers_as<TypeParam>(x));
    activate(kind, data, std::ssize(x), device.stream());
    const auto actual = device.download(data, std::ssize(x));
    for (size_t i = 0; i < x.size(); ++i) {
      const float expected = activation_reference(kind, x[i]);
      ASSERT_NEAR(to_float(actual[i]), expected, bound<TypeParam>(expected)) << x[i];
    }
  }
}

template <class T>
void check_gates(int64_t rows, int64_t cols, int64_t stride) {
  for (const bool clamped : {false, true})
    for (const Activation kind : kKinds) {
      DeviceCase device;
      const std::vector<float> x = rounded_to<T>(normal_numbers(rows * stride, 8, 5.f));
      std::vector<float> expected(static_cast<size_t>(rows * cols));
      const cheetah::GatedArgs exact{.kind = kind,
          .gate = x.data(),
          .gate_stride = stride,
          .up = x.data() + cols,
          .up_stride = stride,
          .y = expected.data(),
          .y_stride = cols,
          .rows = rows,
          .cols = cols};
      clamped ? clamped_swiglu_reference({.rows = exact}) : gated_activation_reference(exact);
      const T* data = device.upload(numbers_as<T>(x));
      T* y = device.poisoned<T>(rows * cols);
      const GatedArgs<T> args{.kind = kind,
          .gate = data,
          .gate_stride = stride,
          .up = data + cols,
          .up_stride = stride,
          .y = y,
          .y_stride = cols,
          .rows = rows,
          .cols = cols};
      if (clamped)
        clamped_swiglu<T>({.rows = args}, device.stream());
      else
        gated_activation(args, device.stream());
      const std::vector<float> actual = device.take(y, rows * cols);
      for (size_t i = 0; i < actual.size(); ++i) {
        const double slack = bound<T>(expected[i]) + 2e-5;  // up multiplies the activation's own error
        ASSERT_NEAR(actual[i], expected[i], slack) << i;
      }
    }
}

// Rows that start anywhere, and rows that can be read 16 bytes at a time.
TYPED_TEST(ActivationCuda, GatesRowsLikeTheReference) {
  check_gates<TypeParam>(7, 45, 93);
  check_gates<TypeParam>(5, 2056, 4112);
}

TYPED_TEST(ActivationCuda, ClipsToTheLimits) {
  DeviceCase device;
  const std::vector<float> x = rounded_to<TypeParam>(normal_numbers(777, 12, 2.f));
  TypeParam* data = device.upload(numbers_as<TypeParam>(x));
  clip(data, 1.5f, std::ssize(x), device.stream());
  const auto actual = device.download(data, std::ssize(x));
  for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(to_float(actual[i]), std::clamp(x[i], -1.5f, 1.5f)) << i;
}

TYPED_TEST(ActivationCuda, AddsAndCopiesRows) {
  DeviceCase device;
  const std::vector<float> x = rounded_to<TypeParam>(normal_numbers(600, 9)),
                           y = rounded_to<TypeParam>(normal_numbers(600, 10));
  TypeParam* sum = device.upload(numbers_as<TypeParam>(y));
  const TypeParam* data = device.upload(numbers_as<TypeParam>(x));
  add_scaled(data, 0.5f, sum, 600, device.stream());
  const auto actual = device.download(sum, 600);
  for (size_t i = 0; i < 600; ++i) {
    const float expected = y[i] + 0.5f * x[i];
    ASSERT_NEAR(to_float(actual[i]), expected, bound<TypeParam>(expected));
  }
  // Rows 9, 4 and 9 of 60 x 10, where sources count in threes.
  const std::vector<int32_t> source = {29, 12, 27};
  TypeParam* rows = device.poisoned<TypeParam>(3 * 12);
  copy_rows<TypeParam, TypeParam>({.x = data,
                                      .x_stride = 10,
                                      .source = device.upload(source),
                                      .divisor = 3,
                                      .y = rows,
                                      .y_stride = 12,
                                      .rows = 3,
                                      .cols = 10},
      device.stream());
  const std::vector<float> copied = device.take(rows, 36);
  for (int64_t row = 0; row < 3; ++row)
    for (int64_t col = 0; col < 10; ++col)
      EXPECT_EQ(copied[static_cast<size_t>(row * 12 + col)],
          x[static_cast<size_t>(source[static_cast<size_t>(row)] / 3 * 10 + col)]);
}

TEST(FinishLogits, ScalesAndCaps) {
  DeviceCase device;
  const std::vector<float> logits = normal_numbers(500, 11, 20.f);
  float* data = device.upload(logits);
  finish_logits(data, 500, 0.5f, 15.f, device.stream());
  const auto actual = device.download(data, 500);
  for (size_t i = 0; i < 500; ++i) ASSERT_NEAR(actual[i], 15.f * std::tanh(0.5f * logits[i] / 15.f), 1e-5);
}

}  // namespace
}  // namespace cheetah::gpu
