// SPDX-License-Identifier: MIT
#pragma once
// How long a step takes, learned from the steps that ran.
#include <array>
#include <cstddef>
#include <cstdint>

namespace cheetah {

// What a step's time depends on.
struct StepShape {
  int64_t tokens = 0;
  double pairs = 0;  // query and key tokens that meet in attention

  void add(int64_t new_tokens, int64_t context);  // new_tokens after `context` cached ones
};

// seconds = fixed + per_token * tokens + per_pair * pairs
struct StepTimeModel {
  double fixed_s = 0;
  double per_token_s = 0;
  double per_pair_s = 0;
  double late = 1;       // one step in fifty takes longer than so many times what was predicted
  bool learned = false;  // false: nothing is known yet of steps with prompts

  double predict(const StepShape& shape) const {
    return fixed_s + per_token_s * static_cast<double>(shape.tokens) + per_pair_s * shape.pairs;
  }
  // The most tokens after `context` cached ones that fit in `seconds`.
  int64_t tokens_within(double seconds, int64_t context) const;
};

// Least squares over recent steps, of relative errors. Steps fade as others of about their size come, so that
// the model follows a machine that gets busier and yet does not forget, over many small steps, what prompts
// cost. One thread.
class StepTimeLearner {
 public:
  void observe(const StepShape& shape, double seconds);
  const StepTimeModel& model() const { return model_; }

 private:
  using Features = std::array<double, 3>;
  struct Sums {
    std::array<Features, 3> products{};  // of the features
    Features targets{};                  // features times seconds
  };
  static constexpr size_t kSizes = 16;  // powers of two of tokens

  void solve();

  std::array<Sums, kSizes> by_size_{};
  int64_t num_steps_ = 0;
  bool saw_prompts_ = false;
  StepTimeModel model_;
};

}  // namespace cheetah
