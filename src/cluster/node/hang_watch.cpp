// SPDX-License-Identifier: MIT
#include "cluster/node/hang_watch.h"

#include <algorithm>

namespace cheetah::cluster {
namespace {

Time last_heard(const ProcessState& process, const std::vector<SeenWorker>& seen) {
  Time heard{};
  for (const SeenWorker& worker : seen)
    if (worker.descriptor.name == process.name) heard = std::max(heard, worker.heard_at);
  return heard;
}

}  // namespace

std::vector<std::pair<std::string, Duration>> HangWatch::look(
    const std::vector<ProcessState>& processes, const std::vector<SeenWorker>& seen, Time now) {
  if (!last_look_ || now - *last_look_ > limit_ / 4) awake_since_ = now;
  last_look_ = now;
  std::vector<std::pair<std::string, Duration>> hung;
  for (const ProcessState& process : processes) {
    if (process.pid <= 0) continue;
    const Time heard = last_heard(process, seen);
    if (heard < process.since) continue;  // not in this life
    const Duration silent = now - std::max(heard, awake_since_);
    if (silent >= limit_) hung.emplace_back(process.name, silent);
  }
  return hung;
}

std::vector<std::string> ReturnWatch::look(
    const std::vector<ProcessState>& processes, const std::vector<SeenWorker>& seen) {
  std::vector<std::string> back;
  for (const ProcessState& process : processes) {
    if (process.pid <= 0 || last_heard(process, seen) < process.since) continue;
    const auto [at, first] = lives_.try_emplace(process.name, process.since);
    if (!first && at->second != process.since) back.push_back(process.name);
    at->second = process.since;
  }
  return back;
}

}  // namespace cheetah::cluster
