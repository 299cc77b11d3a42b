#include "kernels/sample/sample.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "kernels/sample/scan.h"

namespace cheetah {
namespace {

using Candidate = std::pair<float, int32_t>;  // logit, id

bool better(const Candidate& a, const Candidate& b) {
  return a.first > b.first || (a.first == b.first && a.second < b.second);
}

void apply_penalties(std::span<const int32_t> history, const SamplingParams& params, SampleScratch& scratch) {
  std::vector<float>& logits = scratch.logits;
  scratch.counts.resize(logits.size(), 0);
  const auto known = [&](int32_t id) { return id >= 0 && static_cast<size_t>(id) < logits.size(); };
  for (const int32_t id : history)
    if (known(id)) ++scratch.counts[static_cast<size_t>(id)];
  for (const int32_t id : history) {
    if (!known(id)) continue;
    const int32_t count = std::exchange(scratch.counts[static_cast<size_t>(id)], 0);
    if (count == 0) continue;  // done at an earlier occurrence
    float& logit = logits[static_cast<size_t>(id)];
    logit = logit > 0 ? logit / params.repetition_penalty : logit * params.repetition_penalty;
    logit -= params.frequency_penalty * static_cast<float>(count) + params.presence_penalty;
  }
}

bool penalizes(const SamplingParams& params) {
  return params.repetition_penalty != 1.f || params.frequency_penalty != 0.f ||
         params.presence_penalty != 0.f;
}

// exp((logit - peak) / temperature); zero for NaN, so that a NaN is never drawn.
class Weight {
 public:
  Weight(float peak, float temperature) : peak_(peak), inverse_(1.0 / static_cast<double>(temperature)) {}
  double operator()(float logit) const {
    const double weight = std::exp((static_cast<double>(logit) - peak_) * inverse_);
    return weight > 0 ? weight : 0.0;
  }

 private:
  double peak_;
  double inverse_;
};

// Every token may be drawn: walk the vocabulary in index order, which needs no sorting.
int32_t draw_from_all(std::span<const float> logits, const Weight& weight, double uniform, int32_t fallback) {
  double total = 0;
  for (const float logit : logits) total += weight(logit);
  double left = uniform * total;
  for (size_t id = 0; id < logits.size(); ++id) {
    left -= weight(logits[id]);
    if (left < 0) return static_cast<int32_t>(id);
  }
  return fallback;
}

// Candidates stand best first. Keeps the shortest head whose weights reach top_p of `total`.
size_t nucleus(std::span<const Candidate> candidates, const Weight& weight, double wanted) {
  double sum = 0;
  for (size_t i = 0; i < candidates.size(); ++i) {
    sum += weight(candidates[i].first);
    if (sum >= wanted) return i + 1;
  }
  return candidates.size();
}

int32_t draw(std::span<const Candidate> candidates, const Weight& weight, double uniform) {
  double total = 0;
  for (const Candidate& candidate : candidates) total += weight(candidate.first);
  double left = uniform * total;
  for (const Candidate& candidate : candidates) {
    left -= weight(candidate.first);
    if (left < 0) return candidate.second;
  }
  return candidates.front().second;
}

// The `count` best of the logits, best first.
void select_best(std::span<const float> logits, size_t count, std::vector<Candidate>& candidates) {
  collect_best(logits, count, candidates);
  std::sort(candidates.begin(), candidates.end(), better);
}

double total_weight(std::span<const float> logits, const Weight& weight) {
  double total = 0;
  for (const float logit : logits) total += weight(logit);
  return total;
}

// Fills candidates with the tokens top-k and top-p leave, best first. Without top-k the nucleus is usually
// a few tokens of a large vocabulary, so sort a short head and lengthen it only when it does not suffice.
void keep_top(std::span<const float> logits, const SamplingParams& params, const Weight& weight,
              std::vector<Candidate>& candidates) {
  const size_t all = logits.size();
  const size_t limit = params.top_k > 0 ? std::min(static_cast<size_t>(params.top_k), all) : all;
  if (params.top_p >= 1.f) return select_best(logits, limit, candidates);
  constexpr size_t kFirstHead = 256, kGrowth = 8;
  double wanted = params.top_k > 0 ? -1.0 : static_cast<double>(params.top_p) * total_weight(logits, weight);
  for (size_t head = params.top_k > 0 ? limit : std::min(kFirstHead, all);;
       head = std::min(head * kGrowth, all)) {
    select_best(logits, head, candidates);
    if (params.top_k > 0) {
      double total = 0;  // top-p is a share of what top-k left
      for (const Candidate& candidate : candidates) total += weight(candidate.first);
      wanted = static_cast<double>(params.top_p) * total;
    }
    const size_t kept = nucleus(candidates, weight, wanted);
    if (kept == candidates.size() && head < limit) continue;
    candidates.resize(std::max<size_t>(kept, 1));
    return;
  }
}

}  // namespace

int32_t sample(std::span<const float> logits, std::span<const int32_t> history, const SamplingParams& params,
               double uniform, SampleScratch& scratch) {
  CHEETAH_ASSERT(!logits.empty(), "sample: no logits");
  if (penalizes(params) && !history.empty()) {
    scratch.logits.assign(logits.begin(), logits.end());
    apply_penalties(history, params, scratch);
    logits = scratch.logits;
  }
  const int32_t best = argmax(logits);
  const float peak = logits[static_cast<size_t>(best)];
  if (params.temperature <= 0.f || params.top_k == 1 || !std::isfinite(peak)) return best;
  const Weight weight(peak, params.temperature);
  if (params.top_k <= 0 && params.top_p >= 1.f && params.min_p <= 0.f)
    return draw_from_all(logits, weight, uniform, best);
  keep_top(logits, params, weight, scratch.candidates);
  std::span<const Candidate> kept = scratch.candidates;
  while (kept.size() > 1 && weight(kept.back().first) < params.min_p) kept = kept.first(kept.size() - 1);
  return draw(kept, weight, uniform);
}

}  // namespace cheetah
