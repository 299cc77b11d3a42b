// SPDX-License-Identifier: MIT
#pragma once
// A request that a worker answers, and the keys of those that ended.
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "cluster/core/said_tokens.h"
#include "cluster/core/worker_config.h"
#include "cluster/core/worker_ports.h"

namespace cheetah::cluster {

// Its prompt, while another worker computes it.
struct RemotePrompt {
  std::optional<ReservationId> reservation;
  int64_t first_token = 0, end_token = 0;
  std::map<uint32_t, SlabPosted> slabs;  // posted, not yet imported
  uint32_t next_slab = 0;
  int64_t imported_to = 0;
  int64_t computed_to = 0;  // as its prefill worker last said
  Time progressed_at{};     // when that, or what is here, last grew
  std::optional<PrefillDone> done;
};

struct Serving {
  Generate generate;
  WorkerId router{};
  RequestState state = RequestState::kReceived;
  Time arrived{};
  std::optional<Time> deadline;
  bool submitted = false;                       // the engine has it
  bool cancelled = false;                       // the engine shall end it; its router hears no more of it
  bool asked_to_pause = false, paused = false;  // by its client; and the engine was told, for any reason
  uint64_t next_sequence = 0;
  std::vector<int64_t> next_index;  // of each choice's tokens
  SaidTokens said;
  std::optional<FetchFrom> fetch;  // a prefix that another worker has
  RemotePrompt prompt;
  bool pinned = false;  // imported pages wait in the cache for it
  Waterfall waterfall;
  Time claimed_at{}, submitted_at{}, first_token_at{};
};

using Servings = std::map<RequestKey, std::unique_ptr<Serving>>;
inline Serving* find(const Servings& servings, RequestKey key) {
  const auto found = servings.find(key);
  return found == servings.end() ? nullptr : found->second.get();
}

// A request ends once: its newest attempt is remembered for a while, so that what comes late or twice cannot
// start it again.
class EndedRequests {
 public:
  explicit EndedRequests(Duration remember) : remember_(remember) {}
  void add(RequestKey key, Time now);
  bool stale(RequestKey key) const;

 private:
  Duration remember_;
  std::map<RequestUid, std::pair<Attempt, Time>> newest_;  // heard of, and until when it is remembered
  std::vector<std::pair<Time, RequestUid>> order_;         // swept when half of it is old
};

}  // namespace cheetah::cluster
