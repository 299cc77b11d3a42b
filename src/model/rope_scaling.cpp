// SPDX-License-Identifier: MIT
#include "model/rope_scaling.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace cheetah {
namespace {

// theta^(2i/dim), rounded to F32 at the steps where the reference rounds.
std::vector<float> wavelengths(const RopeConfig& config) {
  std::vector<float> result;
  for (int64_t i = 0; i < config.rotary_dim / 2; ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(config.rotary_dim);
    result.push_back(static_cast<float>(std::pow(config.theta, static_cast<double>(exponent))));
  }
  return result;
}

std::vector<float> plain_frequencies(const RopeConfig& config, double divisor) {
  std::vector<float> result = wavelengths(config);
  for (float& value : result) value = static_cast<float>(1.0f / value / divisor);
  return result;
}

// Long waves are divided by the factor, short ones stay, those in between are blended.
std::vector<float> llama3_frequencies(const RopeConfig& config) {
  const double context = static_cast<double>(config.original_context);
  const double low_wavelength = context / config.low_freq_factor;
  const double high_wavelength = context / config.high_freq_factor;
  std::vector<float> result = plain_frequencies(config, 1.0);
  for (float& value : result) {
    const double frequency = value, wavelength = 2.0 * std::numbers::pi / frequency;
    if (wavelength < high_wavelength) continue;
    const double smooth =
        (context / wavelength - config.low_freq_factor) / (config.high_freq_factor - config.low_freq_factor);
    const double blended = (1.0 - smooth) * frequency / config.factor + smooth * frequency;
    value = static_cast<float>(wavelength > low_wavelength ? frequency / config.factor : blended);
  }
  return result;
}

// The dimension whose wave turns `rotations` times over the original context.
double yarn_dimension(const RopeConfig& config, double rotations) {
  return static_cast<double>(config.rotary_dim) *
         std::log(static_cast<double>(config.original_context) / (rotations * 2.0 * std::numbers::pi)) /
         (2.0 * std::log(config.theta));
}

std::vector<float> yarn_frequencies(const RopeConfig& config) {
  double low = yarn_dimension(config, config.beta_fast), high = yarn_dimension(config, config.beta_slow);
  if (config.truncate) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(config.rotary_dim - 1));
  if (low == high) high += 0.001;
  std::vector<float> result = wavelengths(config);
  for (size_t i = 0; i < result.size(); ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    const double extrapolated = 1.0 / static_cast<double>(result[i]);
    result[i] = static_cast<float>(extrapolated / config.factor * ramp + extrapolated * (1.0 - ramp));
  }
  return result;
}

double yarn_magnitude(const RopeConfig& config) {
  if (config.attention_factor) return *config.attention_factor;
  if (config.mscale != 0.0 && config.mscale_all_dim != 0.0)
    return yarn_mscale(config.factor, config.mscale) / yarn_mscale(config.factor, config.mscale_all_dim);
  return yarn_mscale(config.factor, 1.0);
}

std::vector<float> stretched_frequencies(const RopeConfig& config, const std::vector<double>& factors) {
  std::vector<float> result = wavelengths(config);
  for (size_t i = 0; i < result.size(); ++i) result[i] = 1.0f / (static_cast<float>(factors[i]) * result[i]);
  return result;
}

double longrope_magnitude(const RopeConfig& config) {
  if (config.attention_factor) return *config.attention_factor;
  if (config.factor <= 1.0) return 1.0;
  return std::sqrt(1.0 + std::log(config.factor) / std::log(static_cast<double>(config.original_context)));
}

}  // namespace

double yarn_mscale(double scale, double mscale) {
  return scale <= 1.0 ? 1.0 : 0.1 * mscale * std::log(scale) + 1.0;
}

RopeTraits make_rope(const RopeConfig& config) {
  RopeTraits rope;
  switch (config.scaling) {
    case RopeScaling::kNone:
    case RopeScaling::kDynamic:
      rope.inv_freq = plain_frequencies(config, 1.0);
      break;
    case RopeScaling::kLinear:
      rope.inv_freq = plain_frequencies(config, config.factor);
      break;
    case RopeScaling::kLlama3:
      rope.inv_freq = llama3_frequencies(config);
      break;
    case RopeScaling::kYarn:
      rope.inv_freq = yarn_frequencies(config);
      rope.magnitude = static_cast<float>(yarn_magnitude(config));
      break;
    case RopeScaling::kLongrope:
      rope.inv_freq = stretched_frequencies(config, config.short_factors);
      rope.long_inv_freq = stretched_frequencies(config, config.long_factors);
      rope.original_context = config.original_context;
      rope.magnitude = rope.long_magnitude = static_cast<float>(longrope_magnitude(config));
      break;
  }
  return rope;
}

bool rope_changes(const ModelTraits& traits, int64_t from_tokens, int64_t to_tokens) {
  const auto crosses = [&](const RopeTraits& rope) {
    return !rope.long_inv_freq.empty() && from_tokens > 0 && from_tokens <= rope.original_context &&
           to_tokens > rope.original_context;
  };
  return crosses(traits.rope) || crosses(traits.local_rope);
}

}  // namespace cheetah
