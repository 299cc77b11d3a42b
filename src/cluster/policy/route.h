// SPDX-License-Identifier: MIT
#pragma once
// Which worker decodes a request and who computes its prompt. A function of what it is given: the same view,
// request, settings and memory give the same decision, which says why.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "cluster/policy/routing_config.h"
#include "cluster/policy/view.h"
#include "cluster/policy/worth.h"

namespace cheetah::cluster {

enum class PrefillMode : uint8_t { kLocal, kRemote };

// Why this worker.
enum class WorkerReason : uint8_t {
  kNoWorker,
  kOnlyOne,
  kRoundRobin,
  kLeastLoaded,
  kPrefixHash,
  kPrefixSpilled,  // the prefix's own worker is over the load bound
  kKvMatch,        // least predicted time, with something cached
  kShortestWait,   // least predicted time, nothing cached
  kLowestCost,     // load_cost, latency_cost
  kHighestScore,   // cache_score
};

// Why the prompt is computed there.
enum class PrefillReason : uint8_t {
  kNotAsked,  // no worker, or the request may not
  kPolicyNever,
  kPolicyAlways,
  kLongPrompt,
  kBusyDecode,
  kShortPrompt,
  kCached,
  kQueueDeep,
  kQueueDown,
  kBreakerOpen,
  kNoPrefillWorker,
  kScoreAbove,
  kScoreBelow,
  kRemoteFaster,
  kLocalFaster,
  kMeasuredLoss,  // disaggregation measured slower for prompts like this
  kExploring,
  kPrefixFetched,  // another worker's cache holds much of it: its pages come from there
};

struct WorkerScore {
  WorkerId worker{};
  double score = 0;  // lower is better, whatever the policy
  int64_t cached_tokens = 0;
  Ineligible ineligible = Ineligible::kNone;  // then the score means nothing
  bool hot = false;                           // lost its cache bonus
};

struct RouteDecision {
  std::optional<WorkerId> decode = {};  // nullopt: no worker can take it now
  std::optional<WorkerId> race =
      {};  // the same request, to be cancelled there when the first token comes here
  PrefillMode prefill = PrefillMode::kLocal;
  std::optional<WorkerId> prefill_worker =
      {};  // the best one, for direct dispatch; a queue may choose another
  WorkerReason worker_reason = WorkerReason::kNoWorker;
  PrefillReason prefill_reason = PrefillReason::kNotAsked;
  WorkerPolicy worker_policy{};
  OffloadPolicy offload_policy{};
  int64_t effective_tokens = 0;
  std::optional<WorkerId> fetch_from = {};  // with kLocal: the first fetch_tokens come from its cache
  int64_t fetch_tokens = 0;
  double fetch_ms = 0;                   // predicted, of a fetch that was taken
  double local_ms = 0, remote_ms = 0;    // predicted times to the first token; 0: not computed
  double offload_score = 0;              // of OffloadPolicy::kScore
  std::vector<WorkerScore> scores = {};  // of every worker seen
};

std::string_view name_of(WorkerReason reason);
std::string_view name_of(PrefillReason reason);
std::string_view name_of(WorkerPolicy policy);
std::string_view name_of(OffloadPolicy policy);

// What routing remembers between requests. Bounded.
class RouteMemory {
 public:
  uint64_t next_turn() { return turn_++; }
  void note(uint64_t prefix_hash, WorkerId worker, int64_t limit);
  bool recent(uint64_t prefix_hash, WorkerId worker) const;
  void forget(WorkerId worker);
  int64_t num_prefixes() const { return static_cast<int64_t>(now_.size() + before_.size()); }
  WorthTable worth;

 private:
  // Two generations: when the younger is full it becomes the older and that one is dropped.
  std::unordered_map<uint64_t, WorkerId> now_, before_;
  uint64_t turn_ = 0;
};

RouteDecision route(
    const ClusterView& view, const RouteRequest& request, const RoutingConfig& config, RouteMemory& memory);

Ineligible why_not(const WorkerView& worker, const RouteRequest& request, const RoutingConfig& config);

}  // namespace cheetah::cluster
