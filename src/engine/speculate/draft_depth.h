// SPDX-License-Identifier: MIT
#pragma once
// How many drafted tokens are worth verifying: a function of measured step times and live acceptance.
#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace cheetah {

// How often a drafted token turned out to be the model's, given that those before it did. Old tries fade.
class Acceptance {
 public:
  // Of `drafted` tokens the first `accepted` were the model's; the one after them was not, if there was one.
  void observe(int64_t drafted, int64_t accepted);
  // With `prior` worth so many tries.
  double rate(double prior, double weight) const { return (hits_ + prior * weight) / (tries_ + weight); }
  void fade(double factor) {
    hits_ *= factor;
    tries_ *= factor;
  }
  double tries() const { return tries_; }

 private:
  double hits_ = 0, tries_ = 0;
};

// Times of steps that only decode, by the number of their tokens, drafts among them.
class VerifyTimes {
 public:
  static constexpr int64_t kMostTokens = 64;  // so many rows of logits at most

  void observe(int64_t tokens, double seconds);
  bool knows(int64_t tokens) const { return seconds_[static_cast<size_t>(tokens)] > 0; }
  // 0: nothing is known. What was not measured is hoped to be little more than the next smaller step that was, so
  // that it is tried where that would pay.
  double predict(int64_t tokens) const;

 private:
  std::array<double, kMostTokens + 1> seconds_{};
  std::array<uint64_t, kMostTokens + 1> seen_{};  // when, in steps
  uint64_t num_steps_ = 0;
};

// One sequence that could verify up to `longest` drafted tokens, each the model's with `rate`.
struct DraftCandidate {
  double rate = 0;
  int64_t longest = 0;
};

struct DraftPlan {
  std::vector<int64_t> depths;  // as the candidates
  double gain = 1;              // tokens per second over a step without drafts, as predicted
};

// The depths with the most tokens per second, in a step that computes `tokens` without drafts. All zero where drafts
// do not gain, or nothing is known of the time.
void choose_depths(
    std::span<const DraftCandidate> candidates, int64_t tokens, const VerifyTimes& times, DraftPlan& plan);

}  // namespace cheetah
