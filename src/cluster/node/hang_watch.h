// SPDX-License-Identifier: MIT
#pragma once
// Which processes hang: their links were up since they started, and now they have been silent for too long.
// A process that is still loading its model has not been heard of yet and is left alone.
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cluster/node/observer.h"
#include "cluster/node/supervisor.h"

namespace cheetah::cluster {

class HangWatch {
 public:
  explicit HangWatch(Duration limit = std::chrono::seconds(10)) : limit_(limit) {}
  // Their names, and for how long each has been silent. Called regularly: what this process did not hear
  // while it stood still itself says nothing.
  std::vector<std::pair<std::string, Duration>> look(
      const std::vector<ProcessState>& processes, const std::vector<SeenWorker>& seen, Time now);

 private:
  Duration limit_;
  std::optional<Time> last_look_;
  Time awake_since_{};
};

// Tells once per restart that a process is back: it has been heard of in its new life.
class ReturnWatch {
 public:
  std::vector<std::string> look(
      const std::vector<ProcessState>& processes, const std::vector<SeenWorker>& seen);

 private:
  std::map<std::string, Time> lives_;  // the start of the life in which each was last heard of
};

}  // namespace cheetah::cluster
