// SPDX-License-Identifier: MIT
#pragma once
// Rotary frequencies of every scaling scheme, as pure functions of a config's numbers.
#include <cstdint>
#include <optional>
#include <vector>

#include "model/traits.h"

namespace cheetah {

// kDynamic rescales only past max_positions, which no sequence here may pass, so inside it is plain RoPE.
enum class RopeScaling { kNone, kDynamic, kLinear, kLlama3, kYarn, kLongrope };

struct RopeConfig {
  RopeScaling scaling = RopeScaling::kNone;
  double theta = 10000.0;
  int64_t rotary_dim = 0;
  double factor = 1.0;
  int64_t original_context = 0;                           // positions the model was trained on before scaling
  double low_freq_factor = 1.0;                           // llama3
  double high_freq_factor = 4.0;                          // llama3
  double beta_fast = 32.0;                                // yarn
  double beta_slow = 1.0;                                 // yarn
  bool truncate = true;                                   // yarn: round the ramp's ends to whole dimensions
  std::optional<double> attention_factor = std::nullopt;  // yarn and longrope: given instead of computed
  double mscale = 0.0;                                    // yarn as DeepSeek configures it; 0: absent
  double mscale_all_dim = 0.0;
  std::vector<double> short_factors = {};  // longrope: [rotary_dim / 2]
  std::vector<double> long_factors = {};
};

// Frequencies and magnitude; the layout stays kHalves.
RopeTraits make_rope(const RopeConfig& config);

// 0.1 * mscale * ln(scale) + 1, and 1 for scale <= 1.
double yarn_mscale(double scale, double mscale);

// True when a sequence that grows from one length to another needs its cached keys computed again, because
// longrope switches to its long factors in between.
bool rope_changes(const ModelTraits& traits, int64_t from_tokens, int64_t to_tokens);

}  // namespace cheetah
