// SPDX-License-Identifier: MIT
#include "cluster/core/said_tokens.h"

#include <algorithm>
#include <utility>

namespace cheetah::cluster {
namespace {

constexpr int64_t kEach = 64;  // what an answer costs beside its tokens, as if it were tokens

}  // namespace

void SaidTokens::begin(size_t choice, const std::vector<int32_t>& tokens) {
  if (!recall.empty() && choice < choices.size()) choices[choice] = tokens;
}

void SaidTokens::add(size_t choice, int64_t first_index, const std::vector<GeneratedToken>& tokens) {
  if (recall.empty() || choice >= choices.size()) return;
  std::vector<int32_t>& said = choices[choice];
  if (first_index > static_cast<int64_t>(said.size())) return;  // a gap is not filled with guesses
  const auto known = static_cast<size_t>(static_cast<int64_t>(said.size()) - first_index);
  for (size_t i = known; i < tokens.size(); ++i) said.push_back(tokens[i].id);
}

int64_t SaidTokens::size() const {
  int64_t sum = kEach;
  for (const std::vector<int32_t>& choice : choices) sum += static_cast<int64_t>(choice.size());
  return sum;
}

void RememberedAnswers::add(SaidTokens said, Time now) {
  if (said.recall.empty()) return;
  Kept& kept = kept_[said.recall];
  if (kept.number != 0) tokens_ -= kept.said.size();
  tokens_ += said.size();
  kept = {.said = std::move(said), .until = now + time_, .number = ++next_};
  ages_.push_back({kept.said.recall, kept.number, kept.until});
  while (!ages_.empty() && (tokens_ > most_tokens_ || ages_.front().until <= now)) forget_oldest();
}

void RememberedAnswers::forget_oldest() {
  const Age oldest = std::move(ages_.front());
  ages_.pop_front();
  const auto found = kept_.find(oldest.recall);
  if (found == kept_.end() || found->second.number != oldest.number) return;
  tokens_ -= found->second.said.size();
  kept_.erase(found);
}

const SaidTokens* RememberedAnswers::find(const std::string& recall, Time now) const {
  const auto found = kept_.find(recall);
  return found == kept_.end() || found->second.until <= now ? nullptr : &found->second.said;
}

}  // namespace cheetah::cluster
