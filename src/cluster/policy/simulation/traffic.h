// SPDX-License-Identifier: MIT
#pragma once
// What is asked of a simulated cluster and what came of it.
#include <cstdint>
#include <string>
#include <vector>

#include "cluster/policy/policy_config.h"
#include "cluster/policy/simulation/step_model.h"

namespace cheetah::cluster::throughput {

struct Stream {  // Poisson arrivals of one kind
  int class_index = 0;
  double from_s = 0, to_s = 0;
  double requests_per_s = 0;
  int64_t prompt_tokens = 0;  // lengths are drawn between half and one and a half of these
  int64_t output_tokens = 0;
};

struct Scenario {
  std::string name = {};
  uint64_t seed = 1;
  int num_prefill = 1, num_decode = 1;
  bool flip_roles = false;
  int64_t max_sequences = 64;
  int64_t chunk_tokens = 1024;
  double warm_up_s = 1;  // of a worker in a new role
  double end_s = 60;     // arrivals end; what was accepted is finished
  StepModel steps = h200_llama_8b();
  PolicyConfig policy = {};
  std::vector<Stream> streams = {};
};

struct Finished {
  int class_index = 0;
  double arrived_s = 0, ttft_ms = 0, tpot_ms = 0;
  bool in_time = false;  // both within the targets of its class
};

struct Flip {
  double time_s = 0;
  WorkerId worker{};
  Role to{};
  double since_last_s = 0;  // of this worker
};

struct Report {
  int64_t offered = 0, accepted = 0, rejected = 0, degraded = 0, in_time = 0, remote_prefills = 0,
          preempted = 0;
  double end_s = 0;
  std::vector<Finished> finished = {};
  std::vector<Flip> flips = {};

  double goodput_rps() const { return static_cast<double>(in_time) / end_s; }
  double compliance() const {  // of those accepted
    return accepted > 0 ? static_cast<double>(in_time) / static_cast<double>(accepted) : 1;
  }
};

Report run(const Scenario& scenario);
// Of one class, in milliseconds.
double ttft_quantile(const Report& report, int class_index, double q);
double tpot_quantile(const Report& report, int class_index, double q);
// Requests a second of this kind that the cluster can carry with both pools busy.
double capacity_rps(const Scenario& scenario, const Stream& kind);

}  // namespace cheetah::cluster::throughput
