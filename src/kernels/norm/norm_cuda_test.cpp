// SPDX-License-Identifier: MIT
#include "kernels/norm/norm_cuda.h"

#include <gtest/gtest.h>

#include "kernels/cuda/device_case.h"
#include "kernels/norm/norm.h"

namespace cheetah::gpu {
namespace {

template <class T>
class NormCuda : public testing::Test {};
using Numbers = testing::Types<float, Bf16>;
TYPED_TEST_SUITE(NormCuda, Numbers);

template <class T>
void check_norm(bool centered, int64_t rows, int64_t cols, int64_t gap, bool with_weight) {
  SCOPED_TRACE(testing::Message() << (centered ? "layer " : "rms ") << rows << "x" << cols << " + " << gap);
  DeviceCase device;
  const int64_t stride = cols + gap;
  const std::vector<float> x = rounded_to<T>(normal_numbers(rows * stride, 1));
  const std::vector<float> weight = normal_numbers(cols, 2), bias = normal_numbers(cols, 3);
  std::vector<float> expected(static_cast<size_t>(rows * stride), std::nanf(""));
  const cheetah::NormArgs exact{.x = x.data(),
      .x_stride = stride,
      .y = expected.data(),
      .y_stride = stride,
      .rows = rows,
      .cols = cols,
      .weight = with_weight ? weight.data() : nullptr,
      .bias = centered && with_weight ? bias.data() : nullptr,
      .eps = 1e-5f,
      .weight_offset = centered ? 0.f : 1.f};
  centered ? layer_norm_reference(exact) : rms_norm_reference(exact);
  T* y = device.poisoned<T>(rows * stride);
  const NormArgs<T> args{.x = device.upload(numbers_as<T>(x)),
      .x_stride = stride,
      .y = y,
      .y_stride = stride,
      .rows = rows,
      .cols = cols,
      .weight = exact.weight ? device.upload(weight) : nullptr,
      .bias = exact.bias ? device.upload(bias) : nullptr,
      .eps = exact.eps,
      .weight_offset = exact.weight_offset};
  centered ? layer_norm(args, device.stream()) : rms_norm(args, device.stream());
  const std::vector<float> actual = device.take(y, rows * stride);
  for (int64_t row = 0; row < rows; ++row)
    expect_close(
        actual.data() + row * stride, expected.data() + row * stride, cols, 2e-5, 2e-6 + rounding_of<T>());
}

// With a gap of 3 rows start anywhere, with one of 8 where 16 bytes can be read at once.
TYPED_TEST(NormCuda, EqualsTheReferenceOnEveryShape) {
  for (const bool centered : {false, true})
    for (const auto& [rows, cols] : {std::pair<int64_t, int64_t>{0, 8}, {1, 1}, {3, 7}, {5, 256}, {2, 1000},
             {64, 4096}, {3000, 136}, {7, 8192}, {3, 11264}, {1, 20000}})
      for (const int64_t gap : {3, 8})
        for (const bool with_weight : {false, true})
          check_norm<TypeParam>(centered, rows, cols, gap, with_weight);
}

template <class T>
void check_add_and_norm(bool centered, bool post_norm, bool with_next, int64_t rows, int64_t cols) {
  SCOPED_TRACE(testing::Message() << rows << "x" << cols << (centered ? " layer" : " rms")
                                  << (post_norm ? " post" : "") << (with_next ? " next" : ""));
  DeviceCase device;
  std::vector<float> branch = rounded_to<T>(normal_numbers(rows * cols, 11));
  std::vector<float> x = rounded_to<T>(normal_numbers(rows * cols, 12));
  const std::vector<float> weights[] = {normal_numbers(cols, 13), normal_numbers(cols, 14)},
                           biases[] = {normal_numbers(cols, 15), normal_numbers(cols, 16)};
  const T* branch_data = device.upload(numbers_as<T>(branch));
  T* x_data = device.upload(numbers_as<T>(x));
  T* y = device.poisoned<T>(rows * cols);
  add_and_norm<T>({.branch = branch_data,
                      .x = x_data,
                      .y = with_next ? y : nullptr,
                      .rows = rows,
                      .cols = cols,
                      .centered = centered,
                      .post_norm = post_norm,
                      .branch_weight = device.upload(weights[0]),
                      .branch_bias = centered ? device.upload(biases[0]) : nullptr,
                      .scale = 0.5f,
                      .weight = device.upload(weights[1]),
                      .bias = centered ? device.upload(biases[1]) : nullptr,
                      .eps = 1e-5f},
      device.stream());
  const auto normalize = [&](std::vector<float>& values, size_t which) {
    const cheetah::NormArgs args{.x = values.data(),
        .x_stride = cols,
        .y = values.data(),
        .y_stride = cols,
        .rows = rows,
        .cols = cols,
        .weight = weights[which].data(),
        .bias = centered ? biases[which].data() : nullptr,
        .eps = 1e-5f};
    centered ? layer_norm_reference(args) : rms_norm_reference(args);
  };
  if (post_norm) normalize(branch, 0);
  for (size_t i = 0; i < x.size(); ++i) x[i] += 0.5f * branch[i];
  const std::vector<T> sums = device.download(x_data, rows * cols);
  for (size_t i = 0; i < x.size(); ++i)
    ASSERT_NEAR(to_float(sums[i]), x[i], 2e-5 + rounding_of<T>() * std::abs(x[i])) << i;
  if (!with_next) return;
  for (size_t i = 0; i < x.size(); ++i) x[i] = to_float(sums[i]);  // the norm starts from what was kept
  normalize(x, 1);
  const std::vector<float> actual = device.take(y, rows * cols);
  expect_close(actual.data(), x.data(), rows * cols, 3e-5, 2e-6 + rounding_of<T>());
}

TYPED_TEST(NormCuda, AddsABranchAndNormalizesWhatFollows) {
  for (const bool centered : {false, true})
    for (const bool post_norm : {false, true})
      for (const bool with_next : {false, true})
        for (const auto& [rows, cols] :
            {std::pair<int64_t, int64_t>{3, 7}, {5, 256}, {2, 1003}, {9, 4096}, {2, 9000}})
          check_add_and_norm<TypeParam>(centered, post_norm, with_next, rows, cols);
}

TYPED_TEST(NormCuda, NormalizesEveryHeadByItselfInPlace) {
  constexpr int64_t kRows = 3, kHeads = 4, kDim = 16, kStride = 100;
  DeviceCase device;
  std::vector<float> x = rounded_to<TypeParam>(normal_numbers(kRows * kStride, 4));
  const std::vector<float> weight = normal_numbers(kDim, 5);
  TypeParam* data = device.upload(numbers_as<TypeParam>(x));
  rms_norm<TypeParam>({.x = data,
                          .x_stride = kStride,
                          .y = data,
                          .y_stride = kStride,
                          .rows = kRows,
                          .cols = kDim,
                          .parts = kHeads,
                          .part_stride = kDim,
                          .weight = device.upload(weight)},
      device.stream());
  for (int64_t row = 0; row < kRows; ++row)
    rms_norm_reference({.x = x.data() + row * kStride,
        .x_stride = kDim,
        .y = x.data() + row * kStride,
        .y_stride = kDim,
        .rows = kHeads,
        .cols = kDim,
        .weight = weight.data()});
  const auto actual = device.download(data, kRows * kStride);
  for (size_t i = 0; i < x.size(); ++i)
    ASSERT_NEAR(to_float(actual[i]), x[i], 1e-5 + rounding_of<TypeParam>() * std::abs(x[i])) << i;
}

}  // namespace
}  // namespace cheetah::gpu
