// SPDX-License-Identifier: MIT
#pragma once
// One input of a router's core on its way through the machines: the time, and what the edge has to do.
#include <optional>
#include <string>
#include <vector>

#include "cluster/core/router_ports.h"

namespace cheetah::cluster {

class RouterStep {
 public:
  RouterStep(Time time, std::vector<RouterOutput>& outputs) : now(time), outputs_(outputs) {}

  const Time now;
  struct LostWorker {
    WorkerId id{};
    std::string why;
  };
  // What the workers' machine found, for the requests': some may have come, these have gone.
  bool workers_changed = false;
  std::vector<LostWorker> lost;

  // Built in place, out of line: gcc 12 takes a moved-from variant for an uninitialised one.
  void say(WorkerId to, Message message);
  void count(Counter counter);
  void log(RequestKey key, std::string what, std::string why);
  void emit(RequestUid uid, GenerationEvent event, std::optional<Emit::Summary> summary = {});

 private:
  std::vector<RouterOutput>& outputs_;
};

}  // namespace cheetah::cluster
