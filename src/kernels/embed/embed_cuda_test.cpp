// SPDX-License-Identifier: MIT
#include "kernels/embed/embed_cuda.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/cuda/device_case.h"
#include "kernels/gemm/gemm_case.h"

namespace cheetah::gpu {
namespace {

template <class T>
class EmbedCuda : public testing::Test {};
using Numbers = testing::Types<float, Bf16>;
TYPED_TEST_SUITE(EmbedCuda, Numbers);

TYPED_TEST(EmbedCuda, WidensTheRowsOfEveryWeightTypeExactly) {
  constexpr int64_t kRows = 9, kCols = 512;
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kF64, DType::kF8E4M3,
           DType::kF8E5M2, DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1, DType::kQ8_0, DType::kQ4_K,
           DType::kQ5_K, DType::kQ6_K, DType::kMXFP4}) {
    SCOPED_TRACE(name_of(dtype));
    DeviceCase device;
    const GemmCase table = make_gemm_case(dtype, 0, kRows, kCols, 12);
    const std::vector<int32_t> ids = {8, 0, -1, 3, 3};
    TypeParam* y = device.poisoned<TypeParam>(std::ssize(ids) * kCols);
    EmbedArgs<TypeParam> args{.table = table.args.w,
        .ids = device.upload(ids),
        .count = std::ssize(ids),
        .scale = 2.f,
        .y = y,
        .y_stride = kCols};
    args.table.data = device.upload_bytes(table.args.w.data, kRows * row_bytes(dtype, kCols));
    embed(args, device.stream());
    const std::vector<float> actual = device.take(y, std::ssize(ids) * kCols);
    std::vector<float> row(kCols);
    for (size_t i = 0; i < ids.size(); ++i) {
      std::ranges::fill(row, 0.f);  // what a row that fills up a batch gets
      if (ids[i] >= 0)
        dequantize_row(dtype, table.args.w.data + ids[i] * row_bytes(dtype, kCols), row.data(), kCols);
      for (size_t k = 0; k < row.size(); ++k)
        // Types with a minimum: a fused multiply-add rounds once where the CPU rounds twice.
        ASSERT_NEAR(actual[i * kCols + k], 2 * row[k], 2e-6 + rounding_of<TypeParam>() * std::abs(2 * row[k]))
            << k;
    }
  }
}

TYPED_TEST(EmbedCuda, TakesIdsThatTheDeviceChose) {
  DeviceCase device;
  const std::vector<float> table = {1, 2, 3, 4, 5, 6, 7, 8};
  int32_t* ids = device.upload(std::vector<int32_t>{3, 99, 0});
  TypeParam* y = device.poisoned<TypeParam>(6);
  embed<TypeParam>({.table = {.dtype = DType::kF32,
                        .rows = 4,
                        .cols = 2,
                        .data = reinterpret_cast<std::byte*>(device.upload(table))},
                       .ids = ids,
                       .fed = device.upload(std::vector<int32_t>{-1, 1, -1}),
                       .fed_ids = device.upload(std::vector<int32_t>{0, 2}),
                       .chosen = ids,
                       .count = 3,
                       .y = y,
                       .y_stride = 2},
      device.stream());
  EXPECT_EQ(device.take(y, 6), (std::vector<float>{7, 8, 5, 6, 1, 2}));
  EXPECT_EQ(device.download(ids, 3), (std::vector<int32_t>{3, 2, 0}));
}

}  // namespace
}  // namespace cheetah::gpu
