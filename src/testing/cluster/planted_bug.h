// SPDX-License-Identifier: MIT
#pragma once
// Bugs put in on purpose, to show that the simulator finds them. Each wraps a core that has no such bug and
// changes what goes in or what comes out, as the bug would.
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "cluster/core/router_core.h"
#include "cluster/core/worker_core.h"

namespace cheetah::cluster::simulation {

enum class PlantedBug : uint8_t {
  kNone,
  // Of a router:
  kForwardsTwice,  // what comes twice
  kBelievesStale,  // forwards what an old attempt says
  kForgetsTokens,  // starts a lost request again from the beginning
  kCountsBadLuck,  // blames a request for workers that never had it, and places it before all news are read
  // Of a worker:
  kFreesTooEarly,    // memory that others may still write to
  kAcceptsAnyClaim,  // of stale attempts too
  kForgetsMemory,    // of a cancelled request
  kServesLostRouter,
  kKeepsPins,
  kSaysStoppedTooEarly,  // while pages are still on their way
};

class RouterWithBug {
 public:
  explicit RouterWithBug(PlantedBug bug) : bug_(bug) {}
  void handle(RouterCore& core, RouterInput input, Time now, std::vector<RouterOutput>& outputs);

 private:
  // True: the bug has forwarded it, past the core.
  bool forwards(const Tokens& tokens, std::vector<RouterOutput>& outputs);
  void after(RouterCore& core, Time now, std::vector<RouterOutput>& outputs);

  PlantedBug bug_;
  std::set<std::pair<RequestKey, uint64_t>> heard_;  // messages of attempts
  std::map<RequestUid, Attempt> newest_;
  std::set<RequestKey> forgotten_;  // attempts that begin again
};

class WorkerWithBug {
 public:
  explicit WorkerWithBug(PlantedBug bug) : bug_(bug) {}
  void handle(WorkerCore& core, WorkerInput input, Time now, std::vector<WorkerOutput>& outputs);

 private:
  void note(const WorkerInput& input);
  bool swallows(const WorkerInput& input) const;
  void change(WorkerOutput output, bool of_cancel, std::vector<WorkerOutput>& outputs);

  PlantedBug bug_;
  std::set<WorkerId> routers_;
  std::map<RequestKey, WorkerId> decoders_;  // that wait for the pages of a job
  std::set<ReservationId> freed_;
};

}  // namespace cheetah::cluster::simulation
