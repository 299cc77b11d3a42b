// SPDX-License-Identifier: MIT
#pragma once
#include <chrono>
#include <cstdint>
#include <string>

namespace cheetah {

// Progress over countable units on standard error: "evaluating 12 of 64 windows, 3 s left". A line that is
// redrawn on a terminal, a plain line every five seconds elsewhere, silent for work under a second.
class CountProgress {
 public:
  CountProgress(std::string label, std::string unit, int64_t done, int64_t total);
  ~CountProgress();
  CountProgress(const CountProgress&) = delete;
  void advance();

 private:
  using Time = std::chrono::steady_clock::time_point;
  std::string label_;
  std::string unit_;
  int64_t first_;
  int64_t done_;
  int64_t total_;
  Time start_;
  Time last_draw_;
  bool terminal_;
  bool drawn_ = false;
};

}  // namespace cheetah
