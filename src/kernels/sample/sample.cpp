// SPDX-License-Identifier: MIT
#include "kernels/sample/sample.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "kernels/sample/scan.h"

namespace cheetah {
namespace {

// exp((logit - peak) / temperature); zero for NaN, so that a NaN is never drawn.
class Weight {
 public:
  Weight(float peak, float temperature) : peak_(peak), inverse_(1.0 / static_cast<double>(temperature)) {}
  double operator()(float logit) const {
    const double weight = std::exp((static_cast<double>(logit) - peak_) * inverse_);
    return weight > 0 ? weight : 0.0;
  }
  double sum(std::span<const float> logits) const {
    return sum_exp(logits, static_cast<float>(peak_), static_cast<float>(inverse_));
  }

 private:
  double peak_;
  double inverse_;
};

// Every token may be drawn: walk the vocabulary in index order, which needs no sorting, piece by piece.
int32_t draw_from_all(std::span<const float> logits, const Weight& weight, double uniform, int32_t fallback) {
  constexpr size_t kPiece = 1024;
  const auto piece_at = [&](size_t at) { return logits.subspan(at, std::min(kPiece, logits.size() - at)); };
  double total = 0;
  for (size_t at = 0; at < logits.size(); at += kPiece) total += weight.sum(piece_at(at));
  double left = uniform * total;
  for (size_t at = 0; at < logits.size(); at += kPiece) {
    const double sum = weight.sum(piece_at(at));
    if (left >= sum) {
      left -= sum;
      continue;
    }
    int32_t last = fallback;  // rounding may leave a rest: then the piece's last possible token
    for (size_t id = at; id < std::min(at + kPiece, logits.size()); ++id) {
      const double own = weight(logits[id]);
      left -= own;
      if (own > 0) last = static_cast<int32_t>(id);
      if (left < 0) break;
    }
    return last;
  }
  return fallback;
}

double total_weight(std::span<const Candidate> candidates, const Weight& weight) {
  double total = 0;
  for (const Candidate& candidate : candidates) total += weight(candidate.first);
  return total;
}

// Candidates stand best first. The length of the shortest head whose weights reach `wanted`, at least 1.
size_t nucleus(std::span<const Candidate> candidates, const Weight& weight, double wanted) {
  double sum = 0;
  for (size_t i = 0; i < candidates.size(); ++i) {
    sum += weight(candidates[i].first);
    if (sum >= wanted) return i + 1;
  }
  return candidates.size();
}

int32_t draw(std::span<const Candidate> candidates, const Weight& weight, double uniform) {
  double left = uniform * total_weight(candidates, weight);
  for (const Candidate& candidate : candidates) {
    left -= weight(candidate.first);
    if (left < 0) return candidate.second;
  }
  return candidates.front().second;
}

void sort_best_first(std::vector<Candidate>& candidates) {
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return a.first > b.first || (a.first == b.first && a.second < b.second);
  });
}

// Fills candidates, best first, with at least the tokens that top-p leaves of the whole vocabulary: a nucleus
// is usually a few tokens, so sort a short head and lengthen it only when it does not suffice.
void collect_nucleus(
    std::span<const float> logits, const Weight& weight, double wanted, std::vector<Candidate>& candidates) {
  constexpr size_t kFirstHead = 256, kGrowth = 8;
  for (size_t head = kFirstHead;; head *= kGrowth) {
    collect_best(logits, head, candidates);
    if (head >= logits.size() || total_weight(candidates, weight) >= wanted)
      return sort_best_first(candidates);
  }
}

// Fills candidates with the tokens the filters leave, best first.
void keep_allowed(std::span<const float> logits, const SamplingParams& params, float peak,
    std::vector<Candidate>& candidates) {
  const Weight weight(peak, params.temperature);
  double wanted = 0;  // sum of weights that top-p keeps: a share of what top-k left
  if (params.top_k > 0) {
    collect_best(logits, std::min(static_cast<size_t>(params.top_k), logits.size()), candidates);
    sort_best_first(candidates);
    wanted = params.top_p * total_weight(candidates, weight);
  } else {
    wanted = params.top_p * weight.sum(logits);
    if (params.top_p >= 1.f && params.min_p <= 0.f) {
      collect_sorted(logits, candidates);
    } else if (params.min_p > 0.f) {  // a little low: the exact comparison follows below
      collect_above(logits,
          peak + params.temperature * (std::log(params.min_p) - 1e-3f) - 1e-6f * std::abs(peak), candidates);
      sort_best_first(candidates);
    } else {
      collect_nucleus(logits, weight, wanted, candidates);
    }
  }
  size_t kept = params.top_p < 1.f ? nucleus(candidates, weight, wanted) : candidates.size();
  while (kept > 1 && weight(candidates[kept - 1].first) < params.min_p) --kept;
  candidates.resize(kept);
}

// "Exclude top choices": of several tokens with the threshold's share all but the least are taken out.
void exclude_top(const SamplingParams& params, const Weight& weight, std::vector<Candidate>& candidates) {
  const double least = static_cast<double>(params.xtc_threshold) * total_weight(candidates, weight);
  size_t count = 0;
  while (count < candidates.size() && weight(candidates[count].first) >= least) ++count;
  if (count > 1) candidates.erase(candidates.begin(), candidates.begin() + static_cast<ptrdiff_t>(count) - 1);
}

// Between temperature - range and temperature + range, as the entropy of the candidates lies between 0 and that of
// as many equal ones.
float dynamic_temperature(std::span<const Candidate> candidates, const SamplingParams& params) {
  const float low = std::max(0.f, params.temperature - params.dynatemp_range);
  const float high = params.temperature + params.dynatemp_range;
  if (candidates.size() < 2) return low;
  const Weight weight(candidates.front().first, 1.f);
  const double total = total_weight(candidates, weight);
  double entropy = 0;
  for (const Candidate& candidate : candidates)
    if (const double p = weight(candidate.first) / total; p > 0) entropy -= p * std::log(p);
  const double most = std::log(static_cast<double>(candidates.size()));
  const double place = std::pow(std::clamp(entropy / most, 0.0, 1.0), double{params.dynatemp_exponent});
  return low + (high - low) * static_cast<float>(place);
}

}  // namespace

void collect_sorted(std::span<const float> logits, std::vector<Candidate>& candidates) {
  collect_best(logits, logits.size(), candidates);
  sort_best_first(candidates);
}

int32_t sample(std::span<const float> logits, const SamplingParams& params, const SampleNumbers& numbers,
    SampleScratch& scratch) {
  CHEETAH_ASSERT(!logits.empty(), "sample: no logits");
  const int32_t best = argmax(logits);
  const float peak = logits[static_cast<size_t>(best)];
  if (params.temperature <= 0.f || params.top_k == 1 || !std::isfinite(peak)) return best;
  const Weight weight(peak, params.temperature);
  const bool excludes = params.uses_xtc() && numbers.xtc < params.xtc_probability;
  const bool filters = params.top_k > 0 || params.top_p < 1.f || params.min_p > 0.f;
  if (!filters && !excludes && !params.uses_dynatemp())
    return draw_from_all(logits, weight, numbers.draw, best);
  std::vector<Candidate>& candidates = scratch.candidates;
  keep_allowed(logits, params, peak, candidates);
  if (excludes) exclude_top(params, weight, candidates);
  if (candidates.empty()) return best;  // min_p above 1
  if (!params.uses_dynatemp()) return draw(candidates, weight, numbers.draw);
  const float temperature = dynamic_temperature(candidates, params);
  if (temperature <= 0.f) return candidates.front().second;
  return draw(candidates, Weight(candidates.front().first, temperature), numbers.draw);
}

}  // namespace cheetah
