// SPDX-License-Identifier: MIT
#pragma once
// What happens to a router and what it wants done (ports.h).
#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "cluster/core/ports.h"

namespace cheetah::cluster {

// ---- Inputs of a router ----

struct ClientRequest {
  RequestUid uid{};  // make_uid()
  GenerationRequest request{};
  GrammarSource grammar{};
  std::string tenant{};     // for quotas and logs; may be empty
  std::string qos_class{};  // empty: the default one
  // Which model is to answer (WorkerDescriptor::model); empty: any. The owner of the client can make the same
  // request for another model where it says so; `degraded_from` is then what was asked for first.
  std::string model{};
  bool may_change_model = false;
  std::string degraded_from{};
  bool race = false;  // to two workers at once: the first token wins
  std::string
      recall{};  // the name of its answer, for a client that comes back for the rest; empty: none will
  // It has come back: of each choice, how many tokens need not be generated again, where a worker still knows them.
  std::optional<std::vector<int64_t>> has{};
  std::string trace{};
};
struct ClientCancel {
  RequestUid uid{};
};
struct ClientPause {
  RequestUid uid{};
  bool paused = true;
};
struct QueueDepth {  // of the prefill queue, where the edge can see it
  int64_t jobs = 0;
};

using RouterInput = std::variant<PeerMessage, PeerUp, PeerDown, RegistrySnapshot, RegistryPut, RegistryGone,
    Tick, ClientRequest, ClientCancel, ClientPause, QueueDepth>;

// ---- Outputs of a router ----

// To the client, each once and in order; after one with `done` the uid is free.
struct Emit {
  RequestUid uid{};
  GenerationEvent event{};
  // With done: where the time went, and what it took.
  struct Summary {
    Waterfall workers{};
    Microseconds total{}, first_token{};
    uint32_t attempts = 0;
    WorkerId decode_worker{};
    std::string decision{};                         // why it went where it went
    std::string worker_reason{}, prefill_reason{};  // of that, the two that matter; empty: a refusal
    std::string degraded{};                         // what it got less of: "model", "output"; empty: nothing
    std::optional<Microseconds> retry_after{};      // with a refusal
    std::string refusal{};                          // and why
    // Nothing was done for it: the client's request is to be made again for this model.
    std::string other_model{};
  };
  std::optional<Summary> summary{};
};

using RouterOutput = std::variant<SendMessage, Emit, Count, LogDecision>;

}  // namespace cheetah::cluster
