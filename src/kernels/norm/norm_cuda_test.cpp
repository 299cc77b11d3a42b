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
void check_norm(bool centered, int64_t rows, int64_t cols, bool with_weight) {
  SCOPED_TRACE(testing::Message() << (centered ? "layer " : "rms ") << rows << "x" << cols);
  DeviceCase device;
  const int64_t stride = cols + 3;
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
    expect_close(actual.data() + row * stride, expected.data() + row * stride, cols, 2e-5,
                 2e-6 + rounding_of<T>());
}

TYPED_TEST(NormCuda, EqualsTheReferenceOnEveryShape) {
  for (const bool centered : {false, true})
    for (const auto& [rows, cols] :
         {std::pair<int64_t, int64_t>{0, 8}, {1, 1}, {3, 7}, {5, 256}, {2, 1000}, {64, 4096}, {1, 20000}})
      for (const bool with_weight : {false, true}) check_norm<TypeParam>(centered, rows, cols, with_weight);
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
