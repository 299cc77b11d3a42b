// SPDX-License-Identifier: MIT
#include "cluster/policy/simulation/traffic.h"

#include <algorithm>

#include "base/statistics.h"
#include "cluster/policy/simulation/sim_cluster.h"

namespace cheetah::cluster::throughput {
namespace {

std::vector<double> of_class(const Report& report, int class_index, double Finished::*member) {
  std::vector<double> values;
  for (const Finished& one : report.finished)
    if (one.class_index == class_index) values.push_back(one.*member);
  return values;
}

}  // namespace

double ttft_quantile(const Report& report, int class_index, double q) {
  return quantile(of_class(report, class_index, &Finished::ttft_ms), q);
}

double tpot_quantile(const Report& report, int class_index, double q) {
  return quantile(of_class(report, class_index, &Finished::tpot_ms), q);
}

double capacity_rps(const Scenario& scenario, const Stream& kind) {
  const StepModel& steps = scenario.steps;
  const double prefill_rps = 1e3 / (steps.prefill_token_ms * static_cast<double>(kind.prompt_tokens));
  const int64_t context = scenario.max_sequences * (kind.prompt_tokens + kind.output_tokens / 2);
  const double step_ms = steps.decode_ms(scenario.max_sequences, context);
  const double decode_rps =
      static_cast<double>(scenario.max_sequences) * 1e3 / (step_ms * static_cast<double>(kind.output_tokens));
  return std::min(scenario.num_prefill * prefill_rps, scenario.num_decode * decode_rps);
}

Report run(const Scenario& scenario) { return SimCluster(scenario).run(); }

}  // namespace cheetah::cluster::throughput
