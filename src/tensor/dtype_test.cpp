// SPDX-License-Identifier: MIT
#include "tensor/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "tensor/float16.h"
#include "tensor/shape.h"
#include "tensor/tensor.h"

namespace cheetah {
namespace {

TEST(DType, NamesRoundTripInAnyCase) {
  EXPECT_EQ(dtype_from_name("q4_k"), DType::kQ4_K);
  EXPECT_EQ(dtype_from_name("bf16"), DType::kBF16);
  EXPECT_EQ(dtype_from_name("F13"), std::nullopt);
  EXPECT_EQ(name_of(DType::kQ6_K), "Q6_K");
}

TEST(DType, RowBytesCountsBlocks) {
  EXPECT_EQ(row_bytes(DType::kF16, 10), 20);
  EXPECT_EQ(row_bytes(DType::kQ8_0, 64), 68);
  EXPECT_EQ(row_bytes(DType::kQ4_K, 512), 288);
}

TEST(Float16, EveryHalfSurvivesTheRoundTrip) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = f16_to_f32(static_cast<uint16_t>(bits));
    if (std::isnan(value)) continue;
    ASSERT_EQ(f32_to_f16(value), bits) << value;
  }
}

TEST(Float16, RoundsToNearestEven) {
  EXPECT_EQ(f32_to_f16(1.0f + 1.0f / 2048), 0x3C00);  // halfway, down to even
  EXPECT_EQ(f32_to_f16(1.0f + 3.0f / 2048), 0x3C02);  // halfway, up to even
  EXPECT_EQ(f32_to_f16(70000.0f), 0x7C00);            // infinity
  EXPECT_EQ(f32_to_f16(5.9604645e-8f), 0x0001);       // least subnormal
  EXPECT_EQ(f32_to_bf16(1.0f + 1.0f / 256), 0x3F80);  // halfway, down to even
  EXPECT_EQ(f32_to_bf16(1.0f + 3.0f / 256), 0x3F82);
  EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(NAN))));
}

TEST(Shape, MultipliesOut) {
  EXPECT_EQ(Shape({2, 3, 4}).elements(), 24);
  EXPECT_EQ(Shape({}).elements(), 1);
  EXPECT_EQ(Shape({2, 3}).text(), "[2, 3]");
}

TEST(Buffer, IsAlignedAndZeroed) {
  Buffer buffer(100);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 64, 0u);
  EXPECT_EQ(buffer.data()[99], std::byte{0});
}

TEST(Buffer, OfManyMegabytesIsZeroedToItsLastByte) {
  Buffer buffer((int64_t{9} << 20) + 3);
  EXPECT_EQ(buffer.data()[buffer.size() - 1], std::byte{0});
  Buffer moved = std::move(buffer);
  EXPECT_EQ(buffer.size(), 0);  // NOLINT(bugprone-use-after-move)
  moved = Buffer(5);
  EXPECT_EQ(moved.size(), 5);
}

}  // namespace
}  // namespace cheetah
