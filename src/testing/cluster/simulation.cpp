// SPDX-License-Identifier: MIT
#include "testing/cluster/simulation.h"

#include <algorithm>
#include <utility>

#include "base/format.h"

namespace cheetah::cluster::simulation {

void Simulation::after(Duration delay, std::function<void()> what) {
  events_.push_back({now_ + std::max(delay, Duration{}), num_events_++, std::move(what)});
  std::push_heap(events_.begin(), events_.end(), Later{});
}

bool Simulation::step(Time until) {
  if (events_.empty() || events_.front().at > until) {
    now_ = until;
    return false;
  }
  std::pop_heap(events_.begin(), events_.end(), Later{});
  Event event = std::move(events_.back());
  events_.pop_back();
  now_ = event.at;
  ++num_steps_;
  event.what();
  return true;
}

Duration Simulation::between(double least_ms, double most_ms) {
  const double share = static_cast<double>(bits() >> 11) * 0x1p-53;
  return milliseconds(least_ms + (most_ms - least_ms) * share);
}

void Simulation::log(const std::string& line) {
  if (!keeps_log_) return;
  const double seconds = std::chrono::duration<double>(now_ - Time{}).count();
  log_ += format("{:9.4f} {}\n", seconds, line);
}

void Simulation::violate(const std::string& what) {
  log("VIOLATION " + what);
  if (violations_.size() < 8) violations_.push_back(what);
}

}  // namespace cheetah::cluster::simulation
