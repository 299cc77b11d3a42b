// SPDX-License-Identifier: MIT
#include "kernels/sample/scan.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "kernels/sample/sample.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/sample/scan.cpp"
#include "hwy/foreach_target.h"
// after foreach_target.h
#include "hwy/highway.h"
#include "kernels/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cheetah {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using Candidate = std::pair<float, int32_t>;

// The largest number, -infinity when there is none. A comparison with NaN is false, so NaN is passed over.
float largest(const float* x, size_t count) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  auto best = hn::Set(d, -std::numeric_limits<float>::infinity());
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto v = hn::LoadU(d, x + i);
    best = hn::IfThenElse(hn::Gt(v, best), v, best);
  }
  float result = hn::GetLane(hn::MaxOfLanes(d, best));
  for (; i < count; ++i) result = x[i] > result ? x[i] : result;
  return result;
}

// Where `value` first stands; count if nowhere.
size_t find_first(const float* x, size_t count, float value) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto equal = hn::Eq(hn::LoadU(d, x + i), hn::Set(d, value));
    if (!hn::AllFalse(d, equal)) break;  // the loop below says which lane
  }
  while (i < count && !(x[i] == value)) ++i;
  return i;
}

// Lanes are added in double: a vocabulary has more terms than float sums keep digits.
double sum_exp_scaled(const float* x, size_t count, float peak, float factor) {
  const hn::ScalableTag<double> wide;
  const hn::Rebind<float, decltype(wide)> d;
  const size_t lanes = hn::Lanes(d);
  const auto weight = [&](auto tag, const float* at) HWY_ATTR {
    const auto scaled = hn::Mul(hn::Sub(hn::LoadU(tag, at), hn::Set(tag, peak)), hn::Set(tag, factor));
    return exp_of_nonpositive(tag, hn::IfThenElse(hn::Eq(scaled, scaled), scaled, hn::Set(tag, -1e9f)));
  };
  auto sum0 = hn::Zero(wide), sum1 = sum0;
  size_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    sum0 = hn::Add(sum0, hn::PromoteTo(wide, weight(d, x + i)));
    sum1 = hn::Add(sum1, hn::PromoteTo(wide, weight(d, x + i + lanes)));
  }
  double total = hn::GetLane(hn::SumOfLanes(wide, hn::Add(sum0, sum1)));
  const hn::CappedTag<float, 1> one;
  for (; i < count; ++i) total += hn::GetLane(weight(one, x + i));
  return total;
}

// Appends what lies above `floor` from index `begin` on, until `most` are held; returns where it stopped.
size_t append_above(
    const float* x, size_t begin, size_t count, float floor, size_t most, std::vector<Candidate>& found) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  size_t i = begin;
  while (i < count && found.size() < most) {
    if (i + lanes <= count && hn::AllFalse(d, hn::Gt(hn::LoadU(d, x + i), hn::Set(d, floor)))) {
      i += lanes;
      continue;
    }
    for (const size_t end = std::min(i + lanes, count); i < end; ++i)
      if (x[i] > floor) found.emplace_back(x[i], static_cast<int32_t>(i));
  }
  return i;
}

}  // namespace HWY_NAMESPACE
}  // namespace cheetah
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cheetah {

HWY_EXPORT(largest);
HWY_EXPORT(find_first);
HWY_EXPORT(sum_exp_scaled);
HWY_EXPORT(append_above);

int32_t argmax(std::span<const float> logits) {
  CHEETAH_ASSERT(!logits.empty(), "argmax of nothing");
  const float best = HWY_DYNAMIC_DISPATCH(largest)(logits.data(), logits.size());
  const size_t at = HWY_DYNAMIC_DISPATCH(find_first)(logits.data(), logits.size(), best);
  return at == logits.size() ? 0 : static_cast<int32_t>(at);  // all NaN
}

double sum_exp(std::span<const float> logits, float peak, float factor) {
  return HWY_DYNAMIC_DISPATCH(sum_exp_scaled)(logits.data(), logits.size(), peak, factor);
}

double log_sum_exp(std::span<const float> logits) {
  const float peak = logits[static_cast<size_t>(argmax(logits))];
  if (!std::isfinite(peak)) return peak;
  return peak + std::log(sum_exp(logits, peak, 1.f));
}

void collect_above(std::span<const float> logits, float floor, std::vector<Candidate>& found) {
  found.clear();
  HWY_DYNAMIC_DISPATCH(append_above)(logits.data(), 0, logits.size(), floor, logits.size() + 1, found);
}

void collect_best(std::span<const float> logits, size_t count, std::vector<Candidate>& best) {
  const auto append = HWY_DYNAMIC_DISPATCH(append_above);
  const auto better = [](const Candidate& a, const Candidate& b) {
    return a.first > b.first || (a.first == b.first && a.second < b.second);
  };
  // Room for as many again, so that the cut below runs once in `count` finds. What equals the worst kept is
  // passed over: those kept came earlier.
  const size_t room = 2 * count + 64;
  float floor = -std::numeric_limits<float>::infinity();
  best.clear();
  for (size_t i = 0; i < logits.size();) {
    i = append(logits.data(), i, logits.size(), floor, room, best);
    if (best.size() <= count) continue;
    const auto last = best.begin() + static_cast<std::ptrdiff_t>(count) - 1;
    std::nth_element(best.begin(), last, best.end(), better);
    floor = last->first;
    best.resize(count);
  }
}

}  // namespace cheetah
#endif  // HWY_ONCE
