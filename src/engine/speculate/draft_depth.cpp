// SPDX-License-Identifier: MIT
#include "engine/speculate/draft_depth.h"

#include <algorithm>
#include <cmath>

namespace cheetah {
namespace {

constexpr double kMemory = 64;   // tries that a rate remembers
constexpr double kNewest = 0.2;  // weight of a step in the times
// A step that was held up says little about its size.
constexpr double kOutlier = 1.5;
// A size that was not seen for so many steps is trusted less and less, so that one bad reading does not rule it out
// for good.
constexpr uint64_t kStale = 512;
constexpr double kHopedGrowth = 0.3;  // of the time, where the tokens double
// Below this, what is predicted to be gained is within the noise of the times.
constexpr double kLeastGain = 1.03;

}  // namespace

void Acceptance::observe(int64_t drafted, int64_t accepted) {
  const auto tries = static_cast<double>(accepted + (accepted < drafted ? 1 : 0));
  fade(std::exp(-tries / kMemory));
  hits_ += static_cast<double>(accepted);
  tries_ += tries;
}

void VerifyTimes::observe(int64_t tokens, double seconds) {
  ++num_steps_;
  if (tokens < 1 || tokens > kMostTokens) return;
  double& known = seconds_[static_cast<size_t>(tokens)];
  seen_[static_cast<size_t>(tokens)] = num_steps_;
  known = known > 0 ? known + kNewest * (std::min(seconds, kOutlier * known) - known) : seconds;
}

double VerifyTimes::predict(int64_t tokens) const {
  int64_t below = std::min(tokens, kMostTokens);
  const auto is_fresh = [&](int64_t n) {
    return knows(n) && (n == tokens || num_steps_ - seen_[static_cast<size_t>(n)] <= kStale);
  };
  if (knows(below) && below == tokens && num_steps_ - seen_[static_cast<size_t>(below)] <= kStale)
    return seconds_[static_cast<size_t>(below)];
  --below;
  while (below > 0 && !is_fresh(below)) --below;
  if (below <= 0) return tokens <= kMostTokens ? seconds_[static_cast<size_t>(tokens)] : 0;
  const double base = seconds_[static_cast<size_t>(below)];
  const auto more = static_cast<double>(tokens - below);
  const double hoped = base * (1 + kHopedGrowth * more / static_cast<double>(below));
  for (int64_t above = tokens + 1; above <= std::min(2 * tokens, kMostTokens); ++above) {
    if (!is_fresh(above)) continue;
    const double share = more / static_cast<double>(above - below);
    return std::max(base, base + share * (seconds_[static_cast<size_t>(above)] - base));
  }
  return hoped;
}

void choose_depths(
    std::span<const DraftCandidate> candidates, int64_t tokens, const VerifyTimes& times, DraftPlan& plan) {
  plan.depths.assign(candidates.size(), 0);
  plan.gain = 1;
  const double alone_s = times.predict(tokens);
  if (alone_s <= 0) return;
  // A further token is worth the chance that it and all before it are accepted: the dearest are taken last.
  struct Next {
    double worth;
    size_t candidate;
  };
  const auto less = [](const Next& a, const Next& b) {
    return a.worth != b.worth ? a.worth < b.worth : a.candidate > b.candidate;
  };
  std::vector<Next> heap;
  for (size_t i = 0; i < candidates.size(); ++i)
    if (candidates[i].longest > 0) heap.push_back({candidates[i].rate, i});
  std::ranges::make_heap(heap, less);
  std::vector<size_t> order;
  const double alone_rate = static_cast<double>(tokens) / alone_s;
  double expected = static_cast<double>(tokens);
  double best_rate = alone_rate * kLeastGain;
  size_t best = 0;
  std::vector<int64_t> depth(candidates.size(), 0);
  while (!heap.empty() && tokens + std::ssize(order) < VerifyTimes::kMostTokens) {
    std::ranges::pop_heap(heap, less);
    const Next next = heap.back();
    heap.pop_back();
    order.push_back(next.candidate);
    expected += next.worth;
    if (++depth[next.candidate] < candidates[next.candidate].longest) {
      heap.push_back({next.worth * candidates[next.candidate].rate, next.candidate});
      std::ranges::push_heap(heap, less);
    }
    const double rate = expected / times.predict(tokens + std::ssize(order));
    if (rate <= best_rate) continue;
    best_rate = rate;
    best = order.size();
  }
  for (size_t i = 0; i < best; ++i) ++plan.depths[order[i]];
  if (best > 0) plan.gain = best_rate / alone_rate;
}

}  // namespace cheetah
