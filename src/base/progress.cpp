// SPDX-License-Identifier: MIT
#include "base/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/format.h"
#include "base/table.h"
#include "base/terminal.h"

namespace cheetah {

Progress::Progress(std::string label, int64_t total_bytes)
    : label_(std::move(label)),
      total_(total_bytes),
      start_(std::chrono::steady_clock::now()),
      last_draw_(start_),
      terminal_(isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  if (drawn_ && terminal_) std::fputs("\r\033[K", stderr);
}

void Progress::advance(int64_t bytes) {
  done_ += bytes;
  const Time now = std::chrono::steady_clock::now();
  const double since_start = std::chrono::duration<double>(now - start_).count();
  const double since_draw = std::chrono::duration<double>(now - last_draw_).count();
  if (since_start < 1.0 || since_draw < (terminal_ ? 0.1 : 5.0)) return;
  draw(now);
}

void Progress::draw(Time now) {
  constexpr int kWidth = 20;
  last_draw_ = now;
  drawn_ = true;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const double share =
      total_ > 0 ? std::min(1.0, static_cast<double>(done_) / static_cast<double>(total_)) : 0;
  const double rate = static_cast<double>(done_) / seconds;
  const double left = rate > 0 ? static_cast<double>(total_ - done_) / rate : 0;
  const int filled = static_cast<int>(share * kWidth);
  std::string bar;
  for (int i = 0; i < kWidth; ++i) bar += i < filled ? "█" : "░";
  const int columns = terminal_ ? terminal_columns(STDERR_FILENO) : 0;
  std::string line = format("{} {} {:3.0f}%  {} of {}  {}/s  {:.0f} s left", label_, bar, share * 100,
      human_bytes(static_cast<double>(done_)), human_bytes(static_cast<double>(total_)), human_bytes(rate),
      left);
  if (columns > 0) line = shortened(line, columns - 1);  // a full line would wrap
  std::fprintf(stderr, terminal_ ? "\r\033[K%s" : "%s\n", line.c_str());
  std::fflush(stderr);
}

}  // namespace cheetah
