// SPDX-License-Identifier: MIT
#include "cli/count_progress.h"

#include <cstdio>

#include "base/format.h"
#include "cli/output.h"

namespace cheetah {

CountProgress::CountProgress(std::string label, std::string unit, int64_t done, int64_t total)
    : label_(std::move(label)),
      unit_(std::move(unit)),
      first_(done),
      done_(done),
      total_(total),
      start_(std::chrono::steady_clock::now()),
      last_draw_(start_),
      terminal_(stderr_is_terminal()) {}

CountProgress::~CountProgress() {
  if (drawn_ && terminal_) std::fputs("\r\033[K", stderr);
}

void CountProgress::advance() {
  ++done_;
  const Time now = std::chrono::steady_clock::now();
  const auto seconds = [&](Time since) { return std::chrono::duration<double>(now - since).count(); };
  if (seconds(start_) < 1.0 || seconds(last_draw_) < (terminal_ ? 0.1 : 5.0)) return;
  last_draw_ = now;
  drawn_ = true;
  const double left =
      seconds(start_) / static_cast<double>(done_ - first_) * static_cast<double>(total_ - done_);
  const std::string line = format("{} {} of {} {}, {:.0f} s left", label_, done_, total_, unit_, left);
  std::fprintf(stderr, terminal_ ? "\r\033[K%s" : "%s\n", line.c_str());
  std::fflush(stderr);
}

}  // namespace cheetah
