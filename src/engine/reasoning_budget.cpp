// SPDX-License-Identifier: MIT
#include "engine/reasoning_budget.h"

#include <algorithm>

namespace cheetah {
namespace {

// How much of `wanted` the text ends with, where it ended with `matched` of it before this token.
size_t match_after(std::span<const int32_t> wanted, size_t matched, int32_t token) {
  for (size_t length = matched + 1; length > 0; --length) {
    if (length > wanted.size() || wanted[length - 1] != token) continue;
    // The tokens before it are the end of wanted[0, matched).
    if (std::ranges::equal(wanted.first(length - 1), wanted.subspan(matched - (length - 1), length - 1)))
      return length;
  }
  return 0;
}

}  // namespace

ReasoningClock::ReasoningClock(const ReasoningBudget& budget) : budget_(budget) {
  if (budget_.closing.empty())
    state_ = State::kDone;
  else if (budget_.begins_open)
    begin_thinking();
}

void ReasoningClock::begin_thinking() {
  state_ = State::kThinking;
  matched_ = 0;
  close_if_spent();
}

void ReasoningClock::close_if_spent() {
  if (used_ >= budget_.tokens)
    state_ = State::kClosing;  // matched_: of its end the model has written so much
}

void ReasoningClock::push(int32_t token) {
  switch (state_) {
    case State::kBefore:
      matched_ = match_after(budget_.open, matched_, token);
      if (matched_ == budget_.open.size()) begin_thinking();
      return;
    case State::kThinking:
      ++used_;
      matched_ = match_after(budget_.end, matched_, token);
      if (matched_ == budget_.end.size())
        state_ = State::kDone;
      else
        close_if_spent();
      return;
    case State::kClosing:
      if (++matched_ >= budget_.closing.size()) state_ = State::kDone;
      return;
    case State::kDone:
      return;
  }
}

std::span<const int32_t> ReasoningClock::forced() const {
  if (state_ != State::kClosing) return {};
  return std::span(budget_.closing).subspan(matched_, 1);
}

}  // namespace cheetah
