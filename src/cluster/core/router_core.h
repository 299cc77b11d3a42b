// SPDX-License-Identifier: MIT
#pragma once
// The owner of the clients of one process: takes their requests, sends each to a decode worker, keeps what
// was forwarded of it, and sends it again elsewhere when the worker is lost. A central router is one of
// these; a worker with clients of its own (decode-centric ingress) embeds one whose `prefer` is the worker
// itself.
//
// What always holds: every accepted request ends with exactly one event with `done`, no later than its
// deadline and a grace; of each choice the client gets every token once and in order, whatever the workers
// say how often.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cluster/core/router_config.h"
#include "cluster/core/router_ports.h"
#include "cluster/core/routing.h"

namespace cheetah::cluster {

class RouterCore {
 public:
  // `routing` outlives the core.
  RouterCore(const RouterConfig& config, Routing& routing);
  ~RouterCore();
  RouterCore(const RouterCore&) = delete;
  RouterCore& operator=(const RouterCore&) = delete;

  void handle(RouterInput input, Time now, std::vector<RouterOutput>& outputs);
  Time next_wake() const;  // Time::max(): no need

  const KnownWorkers& workers() const;
  int64_t num_requests() const;
  // One line per request, for status and for the log of a failing simulation.
  std::string describe() const;
  void check_invariants() const;  // aborts where one is broken

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cheetah::cluster
