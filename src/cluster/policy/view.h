// SPDX-License-Identifier: MIT
#pragma once
// What a routing or admission decision sees: plain values that the router keeps up to date. Shares and
// fractions are 0 to 1 everywhere in policy/, lengths are tokens, times are milliseconds unless the name says
// otherwise.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/types.h"

namespace cheetah::cluster {

struct WorkerView {
  WorkerDescriptor descriptor = {};
  WorkerLoad load = {};
  Duration load_age{};     // since the load was reported
  bool reachable = false;  // its link is up and its lease is there
  // What this router sent after that report and the report therefore cannot show; without it every request
  // between two reports would go to the same worker.
  int64_t sent_choices = 0;
  int64_t sent_prefill_tokens = 0;
};

struct PrefillQueueView {
  bool up = false;     // jobs can be put on it (or sent directly)
  int64_t depth = 0;   // jobs waiting
  int64_t tokens = 0;  // they will compute
};

struct ClusterView {
  std::vector<WorkerView> workers = {};
  PrefillQueueView prefill_queue = {};
  bool prefill_breaker_open = false;
  double transfer_bytes_per_s = 0;  // of workers that have not measured their own; 0: not known yet
};

// How much of one request's prompt a worker's cache holds, by the KV index.
struct KvMatch {
  WorkerId worker{};
  int64_t tokens = 0;

  bool operator==(const KvMatch&) const = default;
};

struct RouteRequest {
  RequestKey key = {};
  std::string model = {};  // WorkerDescriptor::model; "": any
  int64_t prompt_tokens = 0;
  int64_t expected_output = 0;  // tokens per choice; the request's limit where nothing better is known
  int64_t choices = 1;
  int32_t priority = 0;    // of its class: greater is more urgent
  double ttft_slo_ms = 0;  // 0: none
  double tpot_slo_ms = 0;
  uint64_t prefix_hash = 0;  // of the first blocks, salted; 0: shorter than a block
  std::vector<KvMatch> cached = {};
  std::vector<WorkerId> excluded = {};  // lost while they had this request
  bool allow_remote_prefill = true;
  bool race = false;  // on two workers at once
};

const WorkerView* find_worker(const ClusterView& view, WorkerId id);
int64_t cached_tokens(const RouteRequest& request, WorkerId worker);
// Of the prompt, what `worker` has to compute: never less than one token, which gives the first logits.
int64_t effective_tokens(const RouteRequest& request, WorkerId worker);
double matched_fraction(const RouteRequest& request, WorkerId worker);
double kv_occupancy(const WorkerView& worker);  // share of pages that requests hold
int64_t active_choices(const WorkerView& worker);
double slot_share(const WorkerView& worker);  // active choices by those it can run; may exceed 1

bool serves_decode(Role role);
bool serves_prefill(Role role);
// Pages computed by `from` can be used by `to`, as they are or transformed (shard, dtype, order, page size).
bool pages_can_move(const KvDescriptor& from, const KvDescriptor& to);

// Why a worker cannot have a request at all; kNone: it can.
enum class Ineligible : uint8_t {
  kNone,
  kNotReady,  // starting or draining
  kUnreachable,
  kSilent,  // no report for too long
  kWrongRole,
  kOtherModel,
  kContextTooShort,
  kExcluded,
};
std::string_view name_of(Ineligible why);

}  // namespace cheetah::cluster
