#pragma once
// Passes over a whole row of logits, vectorised: a vocabulary is large and the kept tokens are few.
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace cheetah {

// The min(count, logits.size()) largest logits with their ids, ties to the lower index, in no order. NaN
// counts as -infinity.
void collect_best(std::span<const float> logits, size_t count, std::vector<std::pair<float, int32_t>>& best);

}  // namespace cheetah
