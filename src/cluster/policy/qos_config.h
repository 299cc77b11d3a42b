// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace cheetah::cluster {

// A class of requests. Its reserved share of the cluster's places is its own whenever it asks; while it does
// not, others may borrow it.
struct QosClass {
  std::string name = {};
  double reserved = 0;   // share of the places, 0..1; those of all classes sum to at most 1
  int32_t priority = 0;  // greater goes first; the least gives back borrowed places first
  double ttft_slo_ms = 500;
  double tpot_slo_ms = 50;
  bool may_borrow = true;
  bool reject_early = true;     // false: waits, whatever is predicted
  bool degrade = false;         // rather a shorter answer than a refusal
  std::string degrade_to = {};  // rather this model's answer than a refusal or a late one; "": as asked for

  bool operator==(const QosClass&) const = default;
};

// The first rule that matches gives the class. A header's name is compared without case, its value exactly.
struct QosMatch {
  std::string header = {};  // "": by tenant
  std::string value = {};   // of the header, or the tenant's name
  std::string qos_class = {};

  bool operator==(const QosMatch&) const = default;
};

struct Quota {  // of a tenant, in tokens: prompt plus the output it may generate
  std::string tenant = {};
  double tokens_per_s = 0;
  double burst_tokens = 0;

  bool operator==(const Quota&) const = default;
};

struct BreakerConfig {
  int64_t failures = 5;  // in a row open it
  double max_depth = 0;  // of the phase's queue, jobs or share; above for depth_ms opens it; 0: not watched
  int64_t depth_ms = 2'000;
  int64_t open_ms = 5'000;  // then a few are let through; doubled with each failed try
  int64_t max_open_ms = 60'000;
  int64_t probes = 3;  // successes that close it again

  bool operator==(const BreakerConfig&) const = default;
};

struct QosConfig {
  bool enabled = true;  // false: everything that has a worker is accepted
  bool early_rejection = true;
  std::vector<QosClass> classes = {{.name = "default", .reject_early = false}};
  std::vector<QosMatch> matches = {};
  std::string default_class = "default";
  double safety = 1.0;            // predictions are multiplied by this before they are compared
  double max_decode_share = 1.0;  // places in use when its prefill finishes, by those there are
  double queue_places = 15.0;     // requests that may wait, for each place there is to run in
  double borrow_limit = 0.9;      // share of an idle reservation that others may use
  int64_t max_queue_ms = 30'000;  // no request waits longer for its first token, whatever its class
  double ema_alpha = 0.2;
  int64_t degraded_output = 200;     // tokens
  double degraded_slo_factor = 2.0;  // a degraded request must be predicted within this times its targets
  bool degrade_no_remote = true;
  std::string degrade_to = {};     // of the classes with `degrade` that name no model themselves
  std::vector<Quota> quotas = {};  // tenant "*": everyone without an own one
  int64_t max_tenants = 10'000;    // whose buckets are remembered
  BreakerConfig prefill_breaker{.max_depth = 64};
  BreakerConfig decode_breaker;

  bool operator==(const QosConfig&) const = default;
};

}  // namespace cheetah::cluster
