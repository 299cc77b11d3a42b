// SPDX-License-Identifier: MIT
#pragma once
// One input of a worker's core on its way through the machines: the time, and what the edges have to do.
#include <string>
#include <utility>
#include <vector>

#include "cluster/core/worker_ports.h"

namespace cheetah::cluster {

class WorkerStep {
 public:
  WorkerStep(Time time, std::vector<WorkerOutput>& outputs) : now(time), outputs_(outputs) {}

  const Time now;
  // Requests whose prompt is computed as far as it will be elsewhere: the engine can have them.
  std::vector<RequestKey> ready;

  // Built in place, out of line: gcc 12 takes a moved-from variant for an uninitialised one.
  void say(WorkerId to, Message message);
  void count(Counter counter);
  void log(RequestKey key, std::string what, std::string why);
  template <class Output>
  void want(Output output) {
    outputs_.emplace_back(std::in_place_type<Output>, std::move(output));
  }

 private:
  std::vector<WorkerOutput>& outputs_;
};

}  // namespace cheetah::cluster
