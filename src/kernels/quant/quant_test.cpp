// SPDX-License-Identifier: MIT
#include "kernels/quant/quant.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "hwy/targets.h"
#include "kernels/quant/blocks.h"
#include "kernels/quant/reference.h"
#include "tensor/float16.h"

namespace cheetah {
namespace {

constexpr DType kReadable[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kF64, DType::kF8E4M3,
    DType::kF8E5M2, DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1, DType::kQ8_0, DType::kQ4_K,
    DType::kQ5_K, DType::kQ6_K, DType::kMXFP4};

template <class Block>
std::vector<float> widened(DType dtype, const Block& block) {
  std::vector<float> out(static_cast<size_t>(traits_of(dtype).block_elements));
  dequantize_row(
      dtype, reinterpret_cast<const std::byte*>(&block), out.data(), traits_of(dtype).block_elements);
  return out;
}

std::vector<float> normal_values(int64_t count, uint64_t seed) {
  Philox random(seed);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = random.next_normal();
  return values;
}

std::vector<float> round_trip(DType dtype, const std::vector<float>& values) {
  const auto count = static_cast<int64_t>(values.size());
  std::vector<std::byte> row(static_cast<size_t>(row_bytes(dtype, count)));
  quantize_row(dtype, values.data(), row.data(), count);
  std::vector<float> back(values.size());
  dequantize_row(dtype, row.data(), back.data(), count);
  return back;
}

double relative_rms(const std::vector<float>& a, const std::vector<float>& b) {
  double error = 0, norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    error += std::pow(a[i] - b[i], 2);
    norm += std::pow(a[i], 2);
  }
  return std::sqrt(error / norm);
}

TEST(Dequantize, FourBitBlocksPutLowNibblesFirst) {
  BlockQ4_0 block{.d = f32_to_f16(0.5f), .q = {}};
  block.q[0] = 0x1F;
  block.q[15] = 0xE0;
  const std::vector<float> x = widened(DType::kQ4_0, block);
  EXPECT_EQ(x[0], 3.5f);
  EXPECT_EQ(x[16], -3.5f);
  EXPECT_EQ(x[15], -4.f);
  EXPECT_EQ(x[31], 3.f);
  BlockQ4_1 with_min{.d = f32_to_f16(0.5f), .m = f32_to_f16(-1.f), .q = {}};
  with_min.q[1] = 0x2F;
  EXPECT_EQ(widened(DType::kQ4_1, with_min)[1], 6.5f);
  EXPECT_EQ(widened(DType::kQ4_1, with_min)[17], 0.f);
}

TEST(Dequantize, FiveBitBlocksTakeTheFifthBitFromTheMask) {
  BlockQ5_0 block{.d = f32_to_f16(2.f), .high = (1u << 3) | (1u << 20), .q = {}};
  block.q[3] = 0x05;
  block.q[4] = 0x70;
  const std::vector<float> x = widened(DType::kQ5_0, block);
  EXPECT_EQ(x[3], 10.f);   // 5 + 16 - 16
  EXPECT_EQ(x[20], 14.f);  // 7 + 16 - 16
  EXPECT_EQ(x[0], -32.f);
  BlockQ5_1 with_min{.d = f32_to_f16(2.f), .m = f32_to_f16(1.f), .high = 1u << 3, .q = {}};
  with_min.q[3] = 0x05;
  EXPECT_EQ(widened(DType::kQ5_1, with_min)[3], 43.f);
}

TEST(Dequantize, EightBitBlocksScaleSignedBytes) {
  BlockQ8_0 block{.d = f32_to_f16(0.25f), .q = {}};
  block.q[31] = -128;
  EXPECT_EQ(widened(DType::kQ8_0, block)[31], -32.f);
}

TEST(Dequantize, FourBitSuperBlocksUnpackSixBitScales) {
  BlockQ4_K block{.d = f32_to_f16(1.f), .dmin = f32_to_f16(0.5f), .scales = {}, .q = {}};
  block.scales[1] = 33 | (2 << 6);     // sub-block 1 scale 33; upper bits of sub-block 5's scale
  block.scales[5] = 20 | (3 << 6);     // sub-block 1 min 20; upper bits of sub-block 5's min
  block.scales[9] = 0x4 | (0x7 << 4);  // sub-block 5: scale 4 + 2 * 16 = 36, min 7 + 3 * 16 = 55
  block.q[0] = 0x30;                   // sub-block 1, element 0
  block.q[64 + 9] = 0xA0;              // sub-block 5, element 9
  const std::vector<float> x = widened(DType::kQ4_K, block);
  EXPECT_EQ(x[32], 33.f * 3 - 10.f);
  EXPECT_EQ(x[5 * 32 + 9], 36.f * 10 - 27.5f);
  EXPECT_EQ(x[0], 0.f);
}

TEST(Dequantize, FiveBitSuperBlocksTakeOneHighBitPerSubBlock) {
  BlockQ5_K block{.d = f32_to_f16(1.f), .dmin = 0, .scales = {}, .high = {}, .q = {}};
  block.scales[2] = 3;
  block.high[7] = 1 << 2;
  block.q[32 + 7] = 0x09;  // sub-block 2, element 7
  EXPECT_EQ(widened(DType::kQ5_K, block)[2 * 32 + 7], 3.f * 25);
}

TEST(Dequantize, SixBitSuperBlocksUseSixteenSignedScales) {
  BlockQ6_K block{.low = {}, .high = {}, .scales = {}, .d = f32_to_f16(0.5f)};
  block.scales[8 + 6] = -4;       // second half, elements 96..111 of it
  block.low[64 + 32 + 5] = 0xB0;  // element 128 + 64 + 32 + 5
  block.high[32 + 5] = 0b10 << 6;
  EXPECT_EQ(widened(DType::kQ6_K, block)[128 + 96 + 5], 0.5f * -4 * (11 + 32 - 32));
}

TEST(Dequantize, MicroscalingBlocksScaleByPowersOfTwo) {
  BlockMXFP4 block{.e = 128, .q = {}};
  block.q[0] = 0x7F;
  block.q[2] = 0x90;
  const std::vector<float> x = widened(DType::kMXFP4, block);
  EXPECT_EQ(x[0], -12.f);
  EXPECT_EQ(x[16], 12.f);
  EXPECT_EQ(x[18], -1.f);
  block.e = 0;
  EXPECT_EQ(widened(DType::kMXFP4, block)[16], std::ldexp(6.f, -127));
}

TEST(Dequantize, EightBitFloatsFollowTheirFormats) {
  const uint8_t e4m3[] = {0x00, 0x01, 0x38, 0x7E, 0xFE, 0x7F};
  std::vector<float> out(6);
  dequantize_row(DType::kF8E4M3, reinterpret_cast<const std::byte*>(e4m3), out.data(), 6);
  EXPECT_EQ(out[1], 0x1p-9f);
  EXPECT_EQ(out[2], 1.f);
  EXPECT_EQ(out[3], 448.f);
  EXPECT_EQ(out[4], -448.f);
  EXPECT_TRUE(std::isnan(out[5]));
  const uint8_t e5m2[] = {0x3C, 0x7B, 0x7C, 0x01};
  dequantize_row(DType::kF8E5M2, reinterpret_cast<const std::byte*>(e5m2), out.data(), 4);
  EXPECT_EQ(out[0], 1.f);
  EXPECT_EQ(out[1], 57344.f);
  EXPECT_TRUE(std::isinf(out[2]));
  EXPECT_EQ(out[3], 0x1p-16f);
}

TEST(Dequantize, IntegersAreRefused) {
  float out = 0;
  const std::byte in{};
  EXPECT_THROW(dequantize_row(DType::kI8, &in, &out, 1), Error);
}

TEST(Dequantize, EveryInstructionSetGivesTheReferencesBitsOnRandomBytesAtOddAddresses) {
  Philox random(7);
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    for (const DType dtype : kReadable) {
      const int64_t block = traits_of(dtype).block_elements;
      for (const int64_t elements : {block, 3 * block, block == 1 ? int64_t{1037} : 5 * block}) {
        std::vector<std::byte> bytes(static_cast<size_t>(row_bytes(dtype, elements)) + 1);
        for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next_u32());
        std::vector<float> fast(static_cast<size_t>(elements)), plain(fast.size());
        dequantize_row(dtype, bytes.data() + 1, fast.data(), elements);
        dequantize_row_reference(dtype, bytes.data() + 1, plain.data(), elements);
        for (size_t i = 0; i < fast.size(); ++i) {
          if (std::isnan(plain[i]) && std::isnan(fast[i])) continue;
          ASSERT_EQ(std::bit_cast<uint32_t>(fast[i]), std::bit_cast<uint32_t>(plain[i]))
              << name_of(dtype) << " element " << i << " on " << hwy::TargetName(target);
        }
      }
    }
  }
  hwy::SetSupportedTargetsForTest(0);
}

TEST(Quantize, PlainTypesRoundToNearest) {
  const std::vector<float> x = normal_values(1000, 1);
  EXPECT_EQ(round_trip(DType::kF32, x), x);
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(round_trip(DType::kF16, {x[i]})[0], f16_to_f32(f32_to_f16(x[i])));
    EXPECT_EQ(round_trip(DType::kBF16, {x[i]})[0], bf16_to_f32(f32_to_bf16(x[i])));
  }
}

TEST(Quantize, BlocksStayWithinHalfAStep) {
  const std::vector<float> x = normal_values(32 * 50, 2);
  const std::vector<float> q8 = round_trip(DType::kQ8_0, x), q4 = round_trip(DType::kQ4_0, x);
  for (size_t block = 0; block < x.size(); block += 32) {
    float largest = 0;
    for (size_t i = 0; i < 32; ++i) largest = std::max(largest, std::fabs(x[block + i]));
    // Half a step, and the f16 scale's own rounding (2^-11) over the whole range.
    for (size_t i = block; i < block + 32; ++i) {
      EXPECT_LE(std::fabs(q8[i] - x[i]), largest * (0.5f / 127 + 1.f / 2048));
      EXPECT_LE(std::fabs(q4[i] - x[i]), largest * (1.f / 8 + 1.f / 2048));  // +8 steps clamp to +7
    }
  }
}

TEST(Quantize, TheSearchOfSuperBlocksBeatsPlainFourBit) {
  const std::vector<float> x = normal_values(256 * 40, 3);
  const double k = relative_rms(x, round_trip(DType::kQ4_K, x));
  EXPECT_LT(k, relative_rms(x, round_trip(DType::kQ4_0, x)));
  EXPECT_LT(k, 0.08);
  EXPECT_LT(relative_rms(x, round_trip(DType::kQ8_0, x)), 0.006);
}

TEST(Quantize, ZerosConstantsAndOneSidedBlocksSurvive) {
  for (const DType dtype : {DType::kQ8_0, DType::kQ4_0, DType::kQ4_K}) {
    EXPECT_EQ(round_trip(dtype, std::vector<float>(256, 0.f)), std::vector<float>(256, 0.f))
        << name_of(dtype);
    for (const float value : {2.f, -2.f})
      for (const float back : round_trip(dtype, std::vector<float>(256, value)))
        EXPECT_NEAR(back, value, 0.02f) << name_of(dtype);
  }
}

TEST(Quantize, EightBitFloatsAreTheNearestAndEndAtTheLargest) {
  const std::vector<float> x = {0.f, -1.f, 1.0625f, 1.1875f, 0x1p-9f, 447.f, 1e6f, -1e6f};
  EXPECT_EQ(round_trip(DType::kF8E4M3, x),
      (std::vector<float>{0.f, -1.f, 1.f, 1.25f, 0x1p-9f, 448.f, 448.f, -448.f}));
}

TEST(Quantize, OnlyWritableTypesAreAccepted) {
  EXPECT_TRUE(can_quantize_to(DType::kQ4_K));
  EXPECT_TRUE(can_quantize_to(DType::kQ6_K));
  EXPECT_FALSE(can_quantize_to(DType::kI32));
  std::byte row[1024];
  const std::vector<float> x(256);
  EXPECT_THROW(quantize_row(DType::kI32, x.data(), row, 256), Error);
}

TEST(Quantize, EachBlockTypeKeepsNormalNumbersWithinItsStep) {
  const std::vector<float> x = normal_values(4096, 5);
  // A step of max / levels leaves a twelfth of its square; blocks of 32 reach about 2.2 deviations.
  const std::pair<DType, double> bounds[] = {{DType::kQ4_1, 0.1}, {DType::kQ5_0, 0.05}, {DType::kQ5_1, 0.05},
      {DType::kQ4_K, 0.1}, {DType::kQ5_K, 0.05}, {DType::kQ6_K, 0.025}, {DType::kMXFP4, 0.16}};
  for (const auto& [dtype, bound] : bounds) {
    EXPECT_LT(relative_rms(x, round_trip(dtype, x)), bound) << name_of(dtype);
    for (const float back : round_trip(dtype, std::vector<float>(256, 0.f))) EXPECT_EQ(back, 0.f);
  }
}

TEST(Quantize, ImportantNumbersErrLess) {
  const std::vector<float> x = normal_values(256, 6);
  std::vector<float> importance(256, 0.01f);
  for (size_t i = 0; i < 256; i += 8) importance[i] = 10.f;
  std::vector<std::byte> row(256);
  std::vector<float> back(256);
  for (const DType dtype : {DType::kQ4_K, DType::kQ5_K, DType::kQ6_K}) {
    const std::vector<float> plain = round_trip(dtype, x);
    quantize_row(dtype, x.data(), row.data(), 256, importance.data());
    dequantize_row(dtype, row.data(), back.data(), 256);
    double before = 0, after = 0;
    for (size_t i = 0; i < 256; i += 8)
      before += std::pow(plain[i] - x[i], 2), after += std::pow(back[i] - x[i], 2);
    EXPECT_LT(after, before) << name_of(dtype);
  }
}

}  // namespace
}  // namespace cheetah
