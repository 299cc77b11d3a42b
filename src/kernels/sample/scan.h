// SPDX-License-Identifier: MIT
#pragma once
// Passes over a whole row of logits, vectorised: a vocabulary is large and the kept tokens are few.
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace cheetah {

using Candidate = std::pair<float, int32_t>;  // logit, id

// sum(exp((logits - peak) * factor)) for logits <= peak; NaN counts as -infinity. Relative error below 3e-7
// beside the argument's own rounding.
double sum_exp(std::span<const float> logits, float peak, float factor);

// The `count` (at least 1) largest logits with their ids, ties to the lower index, in no order; fewer where
// fewer are above -infinity.
void collect_best(std::span<const float> logits, size_t count, std::vector<Candidate>& best);

// Every logit above `floor`, in index order.
void collect_above(std::span<const float> logits, float floor, std::vector<Candidate>& found);

}  // namespace cheetah
