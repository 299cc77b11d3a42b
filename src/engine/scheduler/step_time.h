#pragma once
// How long a step takes, learned from the steps that ran.
#include <array>
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
  bool learned = false;  // false: nothing is known yet

  double predict(const StepShape& shape) const {
    return fixed_s + per_token_s * static_cast<double>(shape.tokens) + per_pair_s * shape.pairs;
  }
  // The most tokens after `context` cached ones that fit in `seconds`.
  int64_t tokens_within(double seconds, int64_t context) const;
};

// Least squares over recent steps: old ones fade, so that the model follows a machine that gets busier. One
// thread.
class StepTimeLearner {
 public:
  void observe(const StepShape& shape, double seconds);
  const StepTimeModel& model() const { return model_; }

 private:
  void solve();

  std::array<std::array<double, 3>, 3> products_{};  // of the features, summed
  std::array<double, 3> targets_{};                  // features times seconds, summed
  int64_t num_steps_ = 0;
  StepTimeModel model_;
};

}  // namespace cheetah
