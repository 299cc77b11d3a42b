// SPDX-License-Identifier: MIT
// F32 to the formats the engine writes. Not a hot path: models are converted once.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <string>

#include "base/error.h"
#include "kernels/attention/scaled_row.h"
#include "kernels/quant/affine_fit.h"
#include "kernels/quant/blocks.h"
#include "kernels/quant/quant.h"
#include "tensor/float16.h"

namespace cheetah {
namespace {

template <class T>
void store(std::byte* to, const T& value) {
  std::memcpy(to, &value, sizeof value);
}

BlockQ8_0 to_q8_0(const float* x) {
  float largest = 0;
  for (int i = 0; i < 32; ++i) largest = std::max(largest, std::fabs(x[i]));
  const float d = largest / 127, inverse = d != 0 ? 1 / d : 0;
  BlockQ8_0 block{.d = f32_to_f16(d), .q = {}};
  for (int i = 0; i < 32; ++i) block.q[i] = static_cast<int8_t>(std::round(x[i] * inverse));
  return block;
}

// The value of the largest magnitude, with its sign, becomes exactly -8 steps.
BlockQ4_0 to_q4_0(const float* x) {
  float extreme = 0;
  for (int i = 0; i < 32; ++i)
    if (std::fabs(x[i]) > std::fabs(extreme)) extreme = x[i];
  const float d = extreme / -8, inverse = d != 0 ? 1 / d : 0;
  const auto level = [&](float value) { return std::min(15, static_cast<int>(value * inverse + 8.5f)); };
  BlockQ4_0 block{.d = f32_to_f16(d), .q = {}};
  for (int i = 0; i < 16; ++i) block.q[i] = static_cast<uint8_t>(level(x[i]) | (level(x[i + 16]) << 4));
  return block;
}

void store_scale_and_min(uint8_t* scales, int s, int scale, int min) {
  if (s < 4) {
    scales[s] = static_cast<uint8_t>(scales[s] | scale);
    scales[s + 4] = static_cast<uint8_t>(scales[s + 4] | min);
    return;
  }
  scales[s + 4] = static_cast<uint8_t>((scale & 15) | ((min & 15) << 4));
  scales[s - 4] = static_cast<uint8_t>(scales[s - 4] | ((scale >> 4) << 6));
  scales[s] = static_cast<uint8_t>(scales[s] | ((min >> 4) << 6));
}

const float* part_of(const float* importance, int first) { return importance ? importance + first : nullptr; }

// What Q4_K and Q5_K have in common: eight scales and minima, and each number's level.
struct KLevels {
  uint16_t d = 0, dmin = 0;
  uint8_t scales[12] = {};
  uint8_t level[256] = {};
};

KLevels fit_k(const float* x, const float* importance, int levels) {
  std::array<Affine, 8> fits;
  float most_scale = 0, most_offset = 0;
  for (int s = 0; s < 8; ++s) {
    const Affine fit = fits[static_cast<size_t>(s)] =
        fit_affine({.x = x + s * 32, .count = 32, .importance = part_of(importance, s * 32)}, levels);
    most_scale = std::max(most_scale, fit.scale);
    most_offset = std::max(most_offset, fit.offset);
  }
  KLevels block{.d = f32_to_f16(most_scale / 63), .dmin = f32_to_f16(most_offset / 63)};
  const float d = f16_to_f32(block.d), dmin = f16_to_f32(block.dmin);
  const auto steps = [](float value, float unit) {
    return unit > 0 ? std::clamp(static_cast<int>(std::lround(value / unit)), 0, 63) : 0;
  };
  for (int s = 0; s < 8; ++s) {
    const Affine& fit = fits[static_cast<size_t>(s)];
    const int scale = steps(fit.scale, d), min = steps(fit.offset, dmin);
    store_scale_and_min(block.scales, s, scale, min);
    const Affine stored{d * static_cast<float>(scale), dmin * static_cast<float>(min)};
    for (int i = s * 32; i < s * 32 + 32; ++i)
      block.level[i] = static_cast<uint8_t>(level_of(x[i], stored, levels));
  }
  return block;
}

BlockQ4_K to_q4_k(const float* x, const float* importance) {
  const KLevels fit = fit_k(x, importance, 15);
  BlockQ4_K block{.d = fit.d, .dmin = fit.dmin, .scales = {}, .q = {}};
  std::copy_n(fit.scales, 12, block.scales);
  for (int i = 0; i < 256; ++i) {
    uint8_t& packed = block.q[i / 64 * 32 + i % 32];
    packed = static_cast<uint8_t>(packed | (fit.level[i] << (i / 32 % 2 ? 4 : 0)));
  }
  return block;
}

BlockQ5_K to_q5_k(const float* x, const float* importance) {
  const KLevels fit = fit_k(x, importance, 31);
  BlockQ5_K block{.d = fit.d, .dmin = fit.dmin, .scales = {}, .high = {}, .q = {}};
  std::copy_n(fit.scales, 12, block.scales);
  for (int i = 0; i < 256; ++i) {
    uint8_t& packed = block.q[i / 64 * 32 + i % 32];
    packed = static_cast<uint8_t>(packed | ((fit.level[i] & 15) << (i / 32 % 2 ? 4 : 0)));
    block.high[i % 32] = static_cast<uint8_t>(block.high[i % 32] | ((fit.level[i] >> 4) << (i / 32)));
  }
  return block;
}

BlockQ6_K to_q6_k(const float* x, const float* importance) {
  std::array<float, 16> fits{};
  float extreme = 0;
  for (int s = 0; s < 16; ++s) {
    const float fit =
        fit_symmetric({.x = x + s * 16, .count = 16, .importance = part_of(importance, s * 16)}, 31);
    fits[static_cast<size_t>(s)] = fit;
    if (std::fabs(fit) > std::fabs(extreme)) extreme = fit;
  }
  BlockQ6_K block{.low = {}, .high = {}, .scales = {}, .d = f32_to_f16(extreme / -128)};
  const float d = f16_to_f32(block.d);
  for (int s = 0; s < 16 && d != 0; ++s)
    block.scales[s] = static_cast<int8_t>(
        std::clamp(static_cast<int>(std::lround(fits[static_cast<size_t>(s)] / d)), -128, 127));
  for (int i = 0; i < 256; ++i) {
    const float scale = d * block.scales[i / 16];
    const int level = scale != 0 ? std::clamp(static_cast<int>(std::lround(x[i] / scale)), -32, 31) + 32 : 32;
    const int half = i / 128, at = i % 128;  // 64 bytes of low nibbles and 32 of high bits per half
    uint8_t& low = block.low[half * 64 + at % 64];
    uint8_t& high = block.high[half * 32 + at % 32];
    low = static_cast<uint8_t>(low | ((level & 15) << (at / 64 * 4)));
    high = static_cast<uint8_t>(high | ((level >> 4) << (at / 32 * 2)));
  }
  return block;
}

BlockQ4_1 to_q4_1(const float* x) {
  const auto [low, high] = std::minmax_element(x, x + 32);
  const float least = *low, d = (*high - least) / 15, inverse = d != 0 ? 1 / d : 0;
  BlockQ4_1 block{.d = f32_to_f16(d), .m = f32_to_f16(least), .q = {}};
  const auto level = [&](float value) {
    return std::min(15, static_cast<int>((value - least) * inverse + 0.5f));
  };
  for (int i = 0; i < 16; ++i) block.q[i] = static_cast<uint8_t>(level(x[i]) | (level(x[i + 16]) << 4));
  return block;
}

template <class Block, class Level>
void store_fives(Block& block, Level level) {
  uint32_t high = 0;
  for (int i = 0; i < 32; ++i) {
    const auto value = static_cast<unsigned>(level(i));
    block.q[i % 16] = static_cast<uint8_t>(block.q[i % 16] | ((value & 15u) << (i / 16 * 4)));
    high |= (value >> 4) << i;
  }
  block.high = high;
}

BlockQ5_0 to_q5_0(const float* x) {
  float extreme = 0;
  for (int i = 0; i < 32; ++i)
    if (std::fabs(x[i]) > std::fabs(extreme)) extreme = x[i];
  const float d = extreme / -16, inverse = d != 0 ? 1 / d : 0;
  BlockQ5_0 block{.d = f32_to_f16(d), .high = 0, .q = {}};
  store_fives(block, [&](int i) { return std::min(31, static_cast<int>(x[i] * inverse + 16.5f)); });
  return block;
}

BlockQ5_1 to_q5_1(const float* x) {
  const auto [least, most] = std::minmax_element(x, x + 32);
  const float d = (*most - *least) / 31, inverse = d != 0 ? 1 / d : 0;
  BlockQ5_1 block{.d = f32_to_f16(d), .m = f32_to_f16(*least), .high = 0, .q = {}};
  const float low = *least;
  store_fives(block, [&](int i) { return std::min(31, static_cast<int>((x[i] - low) * inverse + 0.5f)); });
  return block;
}

uint8_t to_fp4(float value) {
  constexpr std::array kBetween = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.f};
  const float magnitude = std::fabs(value);
  uint8_t code = 0;
  for (const float bound : kBetween) code = static_cast<uint8_t>(code + (magnitude > bound));
  return static_cast<uint8_t>(code | (std::signbit(value) && code ? 8 : 0));
}

double fp4_error(const float* x, int exponent, BlockMXFP4& block) {
  constexpr std::array<float, 8> kValues = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  const float scale = std::ldexp(1.f, exponent);
  double error = 0;
  block = {.e = static_cast<uint8_t>(exponent + 127), .q = {}};
  for (int i = 0; i < 32; ++i) {
    const uint8_t code = to_fp4(x[i] / scale);
    const float back = (code & 8 ? -scale : scale) * kValues[code & 7u];
    error += static_cast<double>(back - x[i]) * (back - x[i]);
    block.q[i % 16] = static_cast<uint8_t>(block.q[i % 16] | (code << (i / 16 * 4)));
  }
  return error;
}

// The scale that spans the numbers, or the one below, which cuts the largest off: whichever errs less.
BlockMXFP4 to_mxfp4(const float* x) {
  float largest = 0;
  for (int i = 0; i < 32; ++i) largest = std::max(largest, std::fabs(x[i]));
  if (largest == 0) return {};
  constexpr int kLeast = -127, kMost = 127;
  const int top = std::clamp(static_cast<int>(std::ceil(std::log2(largest / 6))), kLeast, kMost);
  BlockMXFP4 wide, narrow;
  const double wide_error = fp4_error(x, top, wide);
  return fp4_error(x, std::max(kLeast, top - 1), narrow) < wide_error ? narrow : wide;
}

// Without a scale: what is beyond the largest number becomes it.
uint8_t to_e4m3(float value) {
  if (std::isnan(value)) return 0x7F;
  return static_cast<uint8_t>(
      e4m3_code(std::min(std::fabs(value), 448.f)) | (std::signbit(value) ? 0x80 : 0));
}

template <class Convert>
void each_k_block(
    const float* values, const float* importance, std::byte* row, int64_t elements, Convert convert) {
  CHEETAH_ASSERT(elements % 256 == 0, "a row must be a whole number of blocks");
  for (int64_t i = 0; i < elements / 256; ++i) {
    const auto block = convert(values + i * 256, importance ? importance + i * 256 : nullptr);
    store(row + i * static_cast<int64_t>(sizeof block), block);
  }
}

template <int kElements, class Convert>
void each_block(const float* values, std::byte* row, int64_t elements, Convert convert) {
  CHEETAH_ASSERT(elements % kElements == 0, "a row must be a whole number of blocks");
  for (int64_t i = 0; i < elements / kElements; ++i) {
    const auto block = convert(values + i * kElements);
    store(row + i * static_cast<int64_t>(sizeof block), block);
  }
}

}  // namespace

bool can_quantize_to(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16 || dtype == DType::kF8E4M3 ||
         is_quantized(dtype);
}

void quantize_row(
    DType dtype, const float* values, std::byte* row, int64_t elements, const float* importance) {
  switch (dtype) {
    case DType::kF32:
      return each_block<1>(values, row, elements, [](const float* x) { return *x; });
    case DType::kF16:
      return each_block<1>(values, row, elements, [](const float* x) { return f32_to_f16(*x); });
    case DType::kBF16:
      return each_block<1>(values, row, elements, [](const float* x) { return f32_to_bf16(*x); });
    case DType::kF8E4M3:
      return each_block<1>(values, row, elements, [](const float* x) { return to_e4m3(*x); });
    case DType::kQ8_0:
      return each_block<32>(values, row, elements, to_q8_0);
    case DType::kQ4_0:
      return each_block<32>(values, row, elements, to_q4_0);
    case DType::kQ4_1:
      return each_block<32>(values, row, elements, to_q4_1);
    case DType::kQ5_0:
      return each_block<32>(values, row, elements, to_q5_0);
    case DType::kQ5_1:
      return each_block<32>(values, row, elements, to_q5_1);
    case DType::kMXFP4:
      return each_block<32>(values, row, elements, to_mxfp4);
    case DType::kQ4_K:
      return each_k_block(values, importance, row, elements, to_q4_k);
    case DType::kQ5_K:
      return each_k_block(values, importance, row, elements, to_q5_k);
    case DType::kQ6_K:
      return each_k_block(values, importance, row, elements, to_q6_k);
    default:
      throw Error("no conversion from F32 to " + std::string(name_of(dtype)));
  }
}

}  // namespace cheetah
