// SPDX-License-Identifier: MIT
#include "kernels/softmax/softmax_cuda.h"

#include <gtest/gtest.h>

#include "kernels/cuda/device_case.h"
#include "kernels/softmax/softmax.h"

namespace cheetah::gpu {
namespace {

template <class T>
class SoftmaxCuda : public testing::Test {};
using Numbers = testing::Types<float, Bf16>;
TYPED_TEST_SUITE(SoftmaxCuda, Numbers);

template <class T>
void check(int64_t rows, int64_t cols, int64_t gap) {
  SCOPED_TRACE(testing::Message() << rows << "x" << cols << " + " << gap);
  DeviceCase device;
  const int64_t stride = cols + gap;
  std::vector<float> x = rounded_to<T>(normal_numbers(rows * stride, 51, 6.f));
  if (rows > 0 && cols > 2) x[1] = -INFINITY;  // a token that is not allowed
  std::vector<float> expected(x.size(), std::nanf(""));
  softmax_reference({.x = x.data(),
      .x_stride = stride,
      .y = expected.data(),
      .y_stride = stride,
      .rows = rows,
      .cols = cols});
  T* y = device.poisoned<T>(rows * stride);
  softmax<T>({.x = device.upload(numbers_as<T>(x)),
                 .x_stride = stride,
                 .y = y,
                 .y_stride = stride,
                 .rows = rows,
                 .cols = cols},
      device.stream());
  const std::vector<float> actual = device.take(y, rows * stride);
  for (int64_t row = 0; row < rows; ++row)
    expect_close(
        actual.data() + row * stride, expected.data() + row * stride, cols, 1e-7, 1e-5 + rounding_of<T>());
}

TYPED_TEST(SoftmaxCuda, EqualsTheReferenceOnEveryShape) {
  for (const auto& [rows, cols] : {std::pair<int64_t, int64_t>{0, 8}, {1, 1}, {3, 7}, {5, 256}, {2, 1000},
           {3000, 136}, {64, 4096}, {3, 11264}, {2, 50000}})
    for (const int64_t gap : {3, 8}) check<TypeParam>(rows, cols, gap);
}

}  // namespace
}  // namespace cheetah::gpu
