// F32 to the formats the engine writes. Not a hot path: models are converted once.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <string>

#include "base/error.h"
#include "kernels/attention/scaled_row.h"
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

struct Affine {  // x ~ scale * q - offset, q in 0..15, both at least 0
  float scale = 0;
  float offset = 0;
};

int level_of(float value, const Affine& fit) {
  if (fit.scale <= 0) return 0;
  return std::clamp(static_cast<int>(std::lround((value + fit.offset) / fit.scale)), 0, 15);
}

// Large values matter more to the layer's output than their share of the squared error says.
std::array<float, 32> importance(const float* x) {
  float squares = 0;
  for (int i = 0; i < 32; ++i) squares += x[i] * x[i];
  std::array<float, 32> weights;
  for (int i = 0; i < 32; ++i) weights[static_cast<size_t>(i)] = std::sqrt(squares / 32) + std::fabs(x[i]);
  return weights;
}

// Weighted least squares for (scale, offset) once the levels are chosen with `guess`.
Affine refit(const float* x, const std::array<float, 32>& weights, const Affine& guess) {
  double w = 0, wq = 0, wqq = 0, wx = 0, wqx = 0;
  for (int i = 0; i < 32; ++i) {
    const double weight = weights[static_cast<size_t>(i)], q = level_of(x[i], guess);
    w += weight, wq += weight * q, wqq += weight * q * q, wx += weight * x[i], wqx += weight * q * x[i];
  }
  const double determinant = w * wqq - wq * wq;
  if (determinant <= 0) return guess;
  const double scale = (w * wqx - wq * wx) / determinant, offset = (wq * wqx - wqq * wx) / determinant;
  if (offset >= 0) return {static_cast<float>(scale), static_cast<float>(offset)};
  return {wqq > 0 ? static_cast<float>(wqx / wqq) : 0.f, 0.f};  // the format has no positive minimum
}

double weighted_error(const float* x, const std::array<float, 32>& weights, const Affine& fit) {
  double error = 0;
  for (int i = 0; i < 32; ++i) {
    const double miss = fit.scale * static_cast<float>(level_of(x[i], fit)) - fit.offset - x[i];
    error += weights[static_cast<size_t>(i)] * miss * miss;
  }
  return error;
}

// Tries a range of step sizes around the one that spans the values; each guess is refitted once.
Affine fit_sub_block(const float* x) {
  const auto [least, most] = std::minmax_element(x, x + 32);
  const float low = std::min(0.f, *least);
  if (*most <= low) return {0.f, -low};
  const std::array<float, 32> weights = importance(x);
  Affine best{(*most - low) / 15, -low};
  double best_error = weighted_error(x, weights, best);
  for (int step = -10; step <= 10; ++step) {
    const Affine guess{(*most - low) / (15 + 0.1f * static_cast<float>(step)), -low};
    const Affine fit = refit(x, weights, guess);
    const double error = weighted_error(x, weights, fit);
    if (fit.scale <= 0 || error >= best_error) continue;
    best = fit;
    best_error = error;
  }
  return best;
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

BlockQ4_K to_q4_k(const float* x) {
  std::array<Affine, 8> fits;
  float most_scale = 0, most_offset = 0;
  for (int s = 0; s < 8; ++s) {
    const Affine fit = fits[static_cast<size_t>(s)] = fit_sub_block(x + s * 32);
    most_scale = std::max(most_scale, fit.scale);
    most_offset = std::max(most_offset, fit.offset);
  }
  BlockQ4_K block{
      .d = f32_to_f16(most_scale / 63), .dmin = f32_to_f16(most_offset / 63), .scales = {}, .q = {}};
  const float d = f16_to_f32(block.d), dmin = f16_to_f32(block.dmin);
  const auto steps = [](float value, float unit) {
    return unit > 0 ? std::clamp(static_cast<int>(std::lround(value / unit)), 0, 63) : 0;
  };
  for (int s = 0; s < 8; ++s) {
    const Affine& fit = fits[static_cast<size_t>(s)];
    const int scale = steps(fit.scale, d), min = steps(fit.offset, dmin);
    store_scale_and_min(block.scales, s, scale, min);
    const Affine stored{d * static_cast<float>(scale), dmin * static_cast<float>(min)};
    for (int i = 0; i < 32; ++i) {
      uint8_t& packed = block.q[(s / 2) * 32 + i];
      packed = static_cast<uint8_t>(packed | (level_of(x[s * 32 + i], stored) << (s % 2 ? 4 : 0)));
    }
  }
  return block;
}

// Without a scale: what is beyond the largest number becomes it.
uint8_t to_e4m3(float value) {
  if (std::isnan(value)) return 0x7F;
  return static_cast<uint8_t>(e4m3_code(std::min(std::fabs(value), 448.f)) |
                              (std::signbit(value) ? 0x80 : 0));
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
         dtype == DType::kQ8_0 || dtype == DType::kQ4_0 || dtype == DType::kQ4_K;
}

void quantize_row(DType dtype, const float* values, std::byte* row, int64_t elements) {
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
    case DType::kQ4_K:
      return each_block<256>(values, row, elements, to_q4_k);
    default:
      throw Error("no conversion from F32 to " + std::string(name_of(dtype)));
  }
}

}  // namespace cheetah
