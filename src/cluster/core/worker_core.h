// SPDX-License-Identifier: MIT
#pragma once
// One worker: the decode side answers requests of routers, the prefill side computes pages for other workers.
// Any worker has both; its role says which work it takes. The pages of a prompt that was computed elsewhere
// go into the prefix cache, and then the request is submitted like any other: whatever is lost, late, damaged
// or refused only means that the prompt is computed here.
//
// What always holds: a reservation is freed only when no worker can write to it any more; every wait has an end;
// of a request that ended, nothing is left but its key, remembered for a while so that a late message cannot
// start it again.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cluster/core/worker_config.h"
#include "cluster/core/worker_ports.h"

namespace cheetah::cluster {

class WorkerCore {
 public:
  explicit WorkerCore(const WorkerConfig& config);
  ~WorkerCore();
  WorkerCore(const WorkerCore&) = delete;
  WorkerCore& operator=(const WorkerCore&) = delete;

  void handle(WorkerInput input, Time now, std::vector<WorkerOutput>& outputs);
  Time next_wake() const;
  int jobs_wanted() const;  // how many more the edge may pull from the queue now

  const WorkerDescriptor& descriptor() const;
  int64_t num_peers() const;  // known, linked or not
  struct Outstanding {        // all zero when nothing is going on
    int64_t requests = 0, jobs = 0, reservations = 0, quarantined = 0, exports = 0;
  };
  Outstanding outstanding() const;
  std::string describe() const;
  void check_invariants() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cheetah::cluster
