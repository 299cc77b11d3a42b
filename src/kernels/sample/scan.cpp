#include "kernels/sample/scan.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "kernels/sample/sample.h"

namespace cheetah {

int32_t argmax(std::span<const float> logits) {
  CHEETAH_ASSERT(!logits.empty(), "argmax of nothing");
  size_t best = 0;
  for (size_t i = 1; i < logits.size(); ++i)
    if (logits[i] > logits[best] || std::isnan(logits[best])) best = i;
  return static_cast<int32_t>(std::isnan(logits[best]) ? 0 : best);
}

double log_sum_exp(std::span<const float> logits) {
  const double peak = logits[static_cast<size_t>(argmax(logits))];
  if (!std::isfinite(peak)) return peak;
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - peak);
  return peak + std::log(sum);
}

void collect_best(std::span<const float> logits, size_t count, std::vector<std::pair<float, int32_t>>& best) {
  best.clear();
  for (size_t id = 0; id < logits.size(); ++id) {
    const float logit = std::isnan(logits[id]) ? -std::numeric_limits<float>::infinity() : logits[id];
    best.emplace_back(logit, static_cast<int32_t>(id));
  }
  if (count >= best.size()) return;
  std::nth_element(best.begin(), best.begin() + static_cast<std::ptrdiff_t>(count), best.end(),
                   [](const auto& a, const auto& b) {
                     return a.first > b.first || (a.first == b.first && a.second < b.second);
                   });
  best.resize(count);
}

}  // namespace cheetah
