// SPDX-License-Identifier: MIT
#pragma once
// How long a model may think aloud: when the budget is used up, the text that ends thinking is forced.
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace cheetah {

struct ReasoningBudget {
  int64_t tokens = 0;            // of thoughts
  std::vector<int32_t> open;     // begins them; not used where the prompt has begun them
  std::vector<int32_t> end;      // ends them when the model writes it
  std::vector<int32_t> closing;  // is forced when the budget is used up; begins with `end`
  bool begins_open = false;      // the prompt has begun them

  bool operator==(const ReasoningBudget&) const = default;
};

// Where one choice stands: a function of its generated tokens. The budget must outlive it.
class ReasoningClock {
 public:
  explicit ReasoningClock(const ReasoningBudget& budget);
  void push(int32_t token);
  // The token that must come next; empty: any. Lives as long as the budget.
  std::span<const int32_t> forced() const;
  bool done() const { return state_ == State::kDone; }  // nothing is forced any more

 private:
  enum class State { kBefore, kThinking, kClosing, kDone };
  void begin_thinking();
  void close_if_spent();

  const ReasoningBudget& budget_;
  State state_ = State::kBefore;
  size_t matched_ = 0;  // of open or end, by the last tokens; of closing, while it is forced
  int64_t used_ = 0;
};

}  // namespace cheetah
