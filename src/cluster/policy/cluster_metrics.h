// SPDX-License-Identifier: MIT
#pragma once
// The cluster's numbers as Prometheus text. Counters are plain values that their owner counts up.
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cluster/policy/admission.h"
#include "cluster/policy/route.h"

namespace cheetah::cluster {

constexpr int kNumWorkerReasons = 10;
constexpr int kNumPrefillReasons = 18;

struct WorkerGauges {
  std::string name = {};
  Role role{};
  bool ready = false;
  WorkerLoad load = {};
};

struct ClusterNumbers {
  std::array<uint64_t, kNumWorkerReasons> routed{};     // by WorkerReason
  std::array<uint64_t, kNumPrefillReasons> prefills{};  // by PrefillReason
  uint64_t remote_prefills = 0, local_prefills = 0;
  std::map<std::string, std::array<uint64_t, kNumRejectReasons>> rejects = {};  // by class
  std::map<std::string, uint64_t> accepted, degraded, other_model, own_place;   // by class
  uint64_t given_back = 0;  // places that a class took back from those who had borrowed them
  int64_t prefill_queue_depth = 0;
  BreakerState prefill_breaker{}, decode_breaker{};
  uint64_t flips_to_prefill = 0, flips_to_decode = 0;
  double imbalance = 1;
  std::optional<int64_t> desired_prefill, desired_decode;  // nullopt: nobody decides, so nothing is exported
  double predicted_prefill_per_s = 0, predicted_decode_per_s = 0;  // tokens; where goals scale
  int64_t kv_index_blocks = 0, kv_index_unsure = 0;
  uint64_t config_reloads = 0, config_reload_failures = 0;
  std::vector<WorkerGauges> workers = {};

  void count(const RouteDecision& decision);
  void count(const AdmissionDecision& decision, const std::string& qos_class);
};

std::string metrics_text(const ClusterNumbers& numbers);

}  // namespace cheetah::cluster
