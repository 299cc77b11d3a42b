// SPDX-License-Identifier: MIT
#include "kernels/sample/dry.h"

#include <algorithm>
#include <cmath>

namespace cheetah {
namespace {

// matches[i]: how many values from i on equal those from 0 on (the Z function); matches[0] is unused.
void match_with_front(std::span<const int32_t> values, std::vector<int64_t>& matches) {
  const auto count = std::ssize(values);
  matches.assign(values.size(), 0);
  const auto at = [&](int64_t i) { return values[static_cast<size_t>(i)]; };
  for (int64_t i = 1, begin = 0, end = 0; i < count; ++i) {  // [begin, end): the match that reaches farthest
    int64_t& match = matches[static_cast<size_t>(i)];
    if (i < end) match = std::min(end - i, matches[static_cast<size_t>(i - begin)]);
    while (i + match < count && at(match) == at(i + match)) ++match;
    if (i + match > end) begin = i, end = i + match;
  }
}

}  // namespace

void DryBreakers::add(int32_t head, std::vector<int32_t> tail) {
  std::vector<std::vector<int32_t>>& tails = tails_[head];
  if (std::ranges::find(tails, tail) == tails.end()) tails.push_back(std::move(tail));
}

int64_t DryBreakers::length_after_last(std::span<const int32_t> tokens) const {
  for (auto at = std::ssize(tokens) - 1; at >= 0; --at) {
    const auto found = tails_.find(tokens[static_cast<size_t>(at)]);
    if (found == tails_.end()) continue;
    const std::span<const int32_t> after = tokens.subspan(static_cast<size_t>(at) + 1);
    int64_t longest = -1;
    for (const std::vector<int32_t>& tail : found->second)
      if (tail.size() <= after.size() && std::ranges::equal(tail, after.first(tail.size())))
        longest = std::max(longest, std::ssize(tail));
    if (longest >= 0) return std::ssize(after) - longest;
  }
  return std::ssize(tokens);
}

void penalize_repetition(std::span<const int32_t> tokens, const DryParams& params,
    const DryBreakers* breakers, std::span<float> logits, DryScratch& scratch) {
  if (params.last_n >= 0) tokens = tokens.last(std::min(tokens.size(), static_cast<size_t>(params.last_n)));
  const int64_t limit = breakers ? breakers->length_after_last(tokens) : std::ssize(tokens);
  if (limit < params.allowed_length) return;
  scratch.reversed.assign(tokens.rbegin(), tokens.rend());
  match_with_front(scratch.reversed, scratch.matches);
  scratch.longest.clear();
  for (size_t i = 1; i < scratch.reversed.size(); ++i) {
    const int64_t length = std::min(scratch.matches[i], limit);
    if (length == 0 || length < params.allowed_length) continue;
    int64_t& longest = scratch.longest[scratch.reversed[i - 1]];  // what came after the repeated tokens
    longest = std::max(longest, length);
  }
  const double log_base = std::log(static_cast<double>(params.base));
  constexpr double kLargest = 80;  // of the exponent: beyond it a float has no room
  for (const auto& [id, length] : scratch.longest) {
    if (id < 0 || static_cast<size_t>(id) >= logits.size()) continue;
    const double exponent =
        std::min(kLargest, static_cast<double>(length - params.allowed_length) * log_base);
    logits[static_cast<size_t>(id)] -= static_cast<float>(params.multiplier * std::exp(exponent));
  }
}

}  // namespace cheetah
