// SPDX-License-Identifier: MIT
#pragma once
#include <chrono>
#include <cstdint>
#include <string>

namespace cheetah {

// A progress bar on stderr with bytes, rate and time left. Silent unless stderr is a terminal and the work
// has taken over a second; on other outputs it prints one plain line every five seconds.
class Progress {
 public:
  Progress(std::string label, int64_t total_bytes);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void advance(int64_t bytes);

 private:
  using Time = std::chrono::steady_clock::time_point;
  void draw(Time now);
  std::string label_;
  int64_t total_;
  int64_t done_ = 0;
  Time start_;
  Time last_draw_;
  bool terminal_;
  bool drawn_ = false;
};

}  // namespace cheetah
