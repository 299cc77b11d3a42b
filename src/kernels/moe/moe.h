// SPDX-License-Identifier: MIT
#pragma once
// Which experts a token goes to, and the order that puts each expert's tokens side by side for the grouped
// GEMM.
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/context.h"

namespace cheetah {

enum class RouterScore { kSoftmax, kSigmoid, kSoftmaxOfTopK };

struct RouterArgs {
  const float* logits = nullptr;  // [tokens, experts] f32
  int64_t tokens = 0;
  int64_t experts = 0;
  int64_t top_k = 0;
  RouterScore score = RouterScore::kSoftmax;
  bool normalize = false;                 // weights of the chosen divided by their sum
  float normalize_floor = 0.f;            // added to that sum (DeepSeek: 1e-20)
  float scale = 1.f;                      // multiplies every weight
  const float* selection_bias = nullptr;  // [experts]: added to scores for choosing only (DeepSeek-V3)
  int64_t groups = 1;                     // experts form equal groups; only top_groups groups take part
  int64_t top_groups = 1;
  bool group_score_top2 = false;  // a group's score: sum of its two best (V3) or its best (V2)
};

// Chosen experts, best first, ties to the lower index: ids and weights [tokens, top_k].
void route(const RouterArgs& args, std::span<int32_t> ids, std::span<float> weights);

// Tokens sorted by expert: rows [offsets[e], offsets[e+1]) of `source` are (token * top_k + choice) of expert
// e.
struct ExpertOrder {
  std::vector<int64_t> offsets;  // experts + 1
  std::vector<int64_t> source;   // tokens * top_k
};
void order_by_expert(std::span<const int32_t> ids, int64_t experts, ExpertOrder& order);

}  // namespace cheetah
