// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "kernels/moe/moe.h"

namespace cheetah {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

// The best `count` of a row seen so far, best first; an equal value that comes later ranks lower. NaN ranks
// last.
class TopList {
 public:
  void reset(int64_t count) {
    size_ = 0;
    values_.resize(static_cast<size_t>(count));
    ids_.resize(static_cast<size_t>(count));
  }
  void clear() { size_ = 0; }
  void offer(float value, int32_t id) {
    if (std::isnan(value)) value = kNever;
    if (size_ == ids_.size()) {
      if (size_ == 0 || !(value > values_[size_ - 1])) return;
      --size_;
    }
    size_t place = size_++;
    for (; place > 0 && value > values_[place - 1]; --place) {
      values_[place] = values_[place - 1];
      ids_[place] = ids_[place - 1];
    }
    values_[place] = value;
    ids_[place] = id;
  }
  std::span<const int32_t> ids() const { return {ids_.data(), size_}; }

 private:
  size_t size_ = 0;
  std::vector<float> values_;
  std::vector<int32_t> ids_;
};

// Buffers of one call, kept by the thread so that a step allocates nothing once warm.
struct Scratch {
  std::vector<float> scores;  // [experts]: what the weights are taken from
  std::vector<float> choice;  // [experts]: what the choice is made on
  std::vector<bool> kept;     // [groups]
};

void softmax(std::span<float> values) {
  float peak = kNever;
  for (const float value : values) peak = std::max(peak, value);
  double sum = 0;
  for (float& value : values) sum += value = std::exp(value - peak);
  for (float& value : values) value = static_cast<float>(value / sum);
}

void score(const RouterArgs& args, const float* logits, std::span<float> scores) {
  std::copy_n(logits, args.experts, scores.begin());
  if (args.score == RouterScore::kSoftmax) softmax(scores);
  if (args.score == RouterScore::kSigmoid)
    for (float& value : scores) value = 1.f / (1.f + std::exp(-value));
}

float group_score(const RouterArgs& args, std::span<const float> choice) {
  float best = kNever, second = kNever;
  for (const float value : choice) {
    second = std::max(second, std::min(best, value));
    best = std::max(best, value);
  }
  return args.group_score_top2 && choice.size() > 1 ? best + second : best;
}

// Experts of groups outside the best top_groups are out, even where a negative bias puts all others below
// zero.
void mask_groups(const RouterArgs& args, Scratch& scratch, TopList& best_groups) {
  const auto size = static_cast<size_t>(args.experts / args.groups);
  best_groups.clear();
  for (int64_t group = 0; group < args.groups; ++group)
    best_groups.offer(
        group_score(args, std::span(scratch.choice).subspan(static_cast<size_t>(group) * size, size)),
        static_cast<int32_t>(group));
  scratch.kept.assign(static_cast<size_t>(args.groups), false);
  for (const int32_t group : best_groups.ids()) scratch.kept[static_cast<size_t>(group)] = true;
  for (size_t expert = 0; expert < scratch.choice.size(); ++expert)
    if (!scratch.kept[expert / size]) scratch.choice[expert] = kNever;
}

void weigh(const RouterArgs& args, std::span<const float> scores, std::span<const int32_t> ids,
    std::span<float> weights) {
  for (size_t i = 0; i < ids.size(); ++i) weights[i] = scores[static_cast<size_t>(ids[i])];
  if (args.score == RouterScore::kSoftmaxOfTopK) softmax(weights);
  double sum = args.normalize_floor;
  for (const float weight : weights) sum += weight;
  const double factor = args.normalize ? args.scale / sum : args.scale;
  for (float& weight : weights) weight = static_cast<float>(weight * factor);
}

void check(const RouterArgs& args, size_t num_ids, size_t num_weights) {
  const auto expected = static_cast<size_t>(args.tokens * args.top_k);
  CHEETAH_ASSERT(
      num_ids == expected && num_weights == expected, "route: ids and weights are [tokens, top_k]");
  CHEETAH_ASSERT(args.top_k <= args.experts, "route: more choices than experts");
  CHEETAH_ASSERT(args.groups >= 1 && args.experts % args.groups == 0, "route: groups are equal");
}

}  // namespace

void route(const RouterArgs& args, std::span<int32_t> ids, std::span<float> weights) {
  check(args, ids.size(), weights.size());
  thread_local Scratch scratch;
  thread_local TopList best, best_groups;
  best.reset(args.top_k);
  best_groups.reset(args.top_groups);
  scratch.scores.resize(static_cast<size_t>(args.experts));
  const auto top_k = static_cast<size_t>(args.top_k);
  for (int64_t token = 0; token < args.tokens; ++token) {
    score(args, args.logits + token * args.experts, scratch.scores);
    scratch.choice = scratch.scores;
    if (args.selection_bias)
      for (size_t expert = 0; expert < scratch.choice.size(); ++expert)
        scratch.choice[expert] += args.selection_bias[expert];
    if (args.groups > 1) mask_groups(args, scratch, best_groups);
    best.clear();
    for (size_t expert = 0; expert < scratch.choice.size(); ++expert)
      best.offer(scratch.choice[expert], static_cast<int32_t>(expert));
    const size_t row = static_cast<size_t>(token) * top_k;
    std::ranges::copy(best.ids(), ids.begin() + static_cast<std::ptrdiff_t>(row));
    weigh(args, scratch.scores, ids.subspan(row, top_k), weights.subspan(row, top_k));
  }
}

void order_by_expert(std::span<const int32_t> ids, int64_t experts, ExpertOrder& order) {
  order.offsets.assign(static_cast<size_t>(experts) + 1, 0);
  order.source.resize(ids.size());
  for (const int32_t id : ids) ++order.offsets[static_cast<size_t>(id) + 1];
  for (size_t expert = 1; expert < order.offsets.size(); ++expert)
    order.offsets[expert] += order.offsets[expert - 1];
  // Filling moves every offset to its expert's end, which is the next one's beginning: shift back after.
  for (size_t i = 0; i < ids.size(); ++i)
    order.source[static_cast<size_t>(order.offsets[static_cast<size_t>(ids[i])]++)] = static_cast<int64_t>(i);
  for (size_t expert = order.offsets.size() - 1; expert > 0; --expert)
    order.offsets[expert] = order.offsets[expert - 1];
  order.offsets[0] = 0;
}

}  // namespace cheetah
