// SPDX-License-Identifier: MIT
#include "kernels/quant/reference.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "base/error.h"
#include "kernels/quant/blocks.h"
#include "tensor/float16.h"

namespace cheetah {
namespace {

float f8_e4m3_to_f32(uint8_t bits) {  // the "fn" variant: no infinities, one NaN
  const int exponent = (bits >> 3) & 15, mantissa = bits & 7;
  if (exponent == 15 && mantissa == 7) return std::numeric_limits<float>::quiet_NaN();
  const float magnitude = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                                        : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
  return bits & 0x80 ? -magnitude : magnitude;
}

float f8_e5m2_to_f32(uint8_t bits) { return f16_to_f32(static_cast<uint16_t>(bits << 8)); }

template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <class T, class Convert>
void each(const std::byte* row, float* out, int64_t elements, Convert convert) {
  for (int64_t i = 0; i < elements; ++i) out[i] = convert(load<T>(row + i * static_cast<int64_t>(sizeof(T))));
}

template <class Block, class Convert>
void each_block(const std::byte* row, float* out, int64_t elements, Convert convert) {
  constexpr int64_t kElements = sizeof(Block) > 100 ? 256 : 32;
  for (int64_t i = 0; i < elements / kElements; ++i)
    convert(load<Block>(row + i * static_cast<int64_t>(sizeof(Block))), out + i * kElements);
}

int nibble(const uint8_t* q, int i) { return i < 16 ? q[i] & 15 : q[i - 16] >> 4; }
int fifth_bit(uint32_t high, int i) { return static_cast<int>((high >> i) & 1u) << 4; }

void q4_0(const BlockQ4_0& block, float* out) {
  const float d = f16_to_f32(block.d);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(nibble(block.q, i) - 8);
}

void q4_1(const BlockQ4_1& block, float* out) {
  const float d = f16_to_f32(block.d), m = f16_to_f32(block.m);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(nibble(block.q, i)) + m;
}

void q5_0(const BlockQ5_0& block, float* out) {
  const float d = f16_to_f32(block.d);
  for (int i = 0; i < 32; ++i)
    out[i] = d * static_cast<float>((nibble(block.q, i) | fifth_bit(block.high, i)) - 16);
}

void q5_1(const BlockQ5_1& block, float* out) {
  const float d = f16_to_f32(block.d), m = f16_to_f32(block.m);
  for (int i = 0; i < 32; ++i)
    out[i] = d * static_cast<float>(nibble(block.q, i) | fifth_bit(block.high, i)) + m;
}

void q8_0(const BlockQ8_0& block, float* out) {
  const float d = f16_to_f32(block.d);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(block.q[i]);
}

// Q4_K and Q5_K differ in the fifth bit alone.
template <class Block, class FifthBit>
void k_4_or_5(const Block& block, float* out, FifthBit fifth) {
  for (int s = 0; s < 8; ++s) {
    const ScaleAndMin pair = scale_and_min(block.scales, s);
    const float scale = f16_to_f32(block.d) * static_cast<float>(pair.scale);
    const float min = f16_to_f32(block.dmin) * static_cast<float>(pair.min);
    const uint8_t* q = block.q + (s / 2) * 32;
    for (int i = 0; i < 32; ++i) {
      const int value = (s % 2 ? q[i] >> 4 : q[i] & 15) | fifth(s, i);
      out[s * 32 + i] = scale * static_cast<float>(value) - min;
    }
  }
}

void q4_k(const BlockQ4_K& block, float* out) {
  k_4_or_5(block, out, [](int, int) { return 0; });
}

void q5_k(const BlockQ5_K& block, float* out) {
  k_4_or_5(block, out, [&](int s, int i) { return ((block.high[i] >> s) & 1) << 4; });
}

// Each half of 128: 64 bytes of low nibbles give elements i and i + 64, 32 bytes of high bits four times 32.
void q6_k(const BlockQ6_K& block, float* out) {
  const float d = f16_to_f32(block.d);
  for (int i = 0; i < 256; ++i) {
    const int half = i / 128, j = i % 128;
    const uint8_t packed = block.low[half * 64 + j % 64];
    const int low = j < 64 ? packed & 15 : packed >> 4;
    const int high = (block.high[half * 32 + j % 32] >> (2 * (j / 32))) & 3;
    out[i] = d * static_cast<float>(block.scales[i / 16]) * static_cast<float>((low | (high << 4)) - 32);
  }
}

void mxfp4(const BlockMXFP4& block, float* out) {
  constexpr float kTwice[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
  const float half_scale =
      std::ldexp(1.f, block.e - 128);  // a power of two, subnormal at worst: products are exact
  for (int i = 0; i < 32; ++i) out[i] = half_scale * kTwice[nibble(block.q, i)];
}

}  // namespace

void dequantize_row_reference(DType dtype, const std::byte* row, float* out, int64_t elements) {
  switch (dtype) {
    case DType::kF32:
      if (elements > 0) std::memcpy(out, row, static_cast<size_t>(elements) * sizeof(float));
      return;
    case DType::kF16:
      return each<uint16_t>(row, out, elements, f16_to_f32);
    case DType::kBF16:
      return each<uint16_t>(row, out, elements, bf16_to_f32);
    case DType::kF64:
      return each<double>(row, out, elements, [](double v) { return static_cast<float>(v); });
    case DType::kF8E4M3:
      return each<uint8_t>(row, out, elements, f8_e4m3_to_f32);
    case DType::kF8E5M2:
      return each<uint8_t>(row, out, elements, f8_e5m2_to_f32);
    case DType::kQ4_0:
      return each_block<BlockQ4_0>(row, out, elements, q4_0);
    case DType::kQ4_1:
      return each_block<BlockQ4_1>(row, out, elements, q4_1);
    case DType::kQ5_0:
      return each_block<BlockQ5_0>(row, out, elements, q5_0);
    case DType::kQ5_1:
      return each_block<BlockQ5_1>(row, out, elements, q5_1);
    case DType::kQ8_0:
      return each_block<BlockQ8_0>(row, out, elements, q8_0);
    case DType::kQ4_K:
      return each_block<BlockQ4_K>(row, out, elements, q4_k);
    case DType::kQ5_K:
      return each_block<BlockQ5_K>(row, out, elements, q5_k);
    case DType::kQ6_K:
      return each_block<BlockQ6_K>(row, out, elements, q6_k);
    case DType::kMXFP4:
      return each_block<BlockMXFP4>(row, out, elements, mxfp4);
    default:
      throw Error("no conversion from " + std::string(name_of(dtype)) + " to F32");
  }
}

}  // namespace cheetah
