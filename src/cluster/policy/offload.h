// SPDX-License-Identifier: MIT
#pragma once
// Whether a prompt that `decode` will continue is computed elsewhere.
#include <optional>

#include "cluster/policy/route.h"

namespace cheetah::cluster {

struct OffloadAnswer {
  PrefillMode mode = PrefillMode::kLocal;
  PrefillReason reason = PrefillReason::kNotAsked;
  std::optional<WorkerId> prefill_worker = {};
  double local_ms = 0, remote_ms = 0, score = 0;
  double wait_ms = 0;  // of the way chosen
  double ttft_ms() const { return mode == PrefillMode::kRemote ? remote_ms : local_ms; }
};

struct OffloadInputs {
  int64_t effective_tokens = 0;
  int64_t queue_depth = 0;
  int64_t decode_active = 0;
  double decode_load = 0;  // share of places
  double matched_fraction = 0;
  bool urgent = false;  // may pass a deep queue
};

OffloadAnswer threshold_offload(const OffloadInputs& inputs, const ThresholdOffload& config);
double offload_score(const OffloadInputs& inputs, const std::vector<OffloadRule>& rules);

// By the policy alone, without what was measured: a function of its arguments. local_ms, remote_ms and
// wait_ms are set where they apply.
OffloadAnswer decide_by_policy(const ClusterView& view, const WorkerView& decode, const RouteRequest& request,
    const RoutingConfig& config);

OffloadAnswer decide_prefill(const ClusterView& view, const WorkerView& decode, const RouteRequest& request,
    const RoutingConfig& config, WorthTable& worth);

}  // namespace cheetah::cluster
