// SPDX-License-Identifier: MIT
#pragma once
// What happens to a core and what it wants done. A core is a state machine: handle(input, now, outputs)
// changes its state and appends what an edge must do, in order. No threads, sockets, clocks or chance in it:
// the processes of a cluster (node/) and the simulator (testing/cluster/) are two edges of the same cores.
// Here is what both cores have; router_ports.h and worker_ports.h have the rest.
//
// What an edge promises:
//  - inputs come one at a time, each with a `now` that never goes back;
//  - all messages of one link come between its PeerUp and PeerDown, in order; PeerDown of an old link comes before
//    PeerUp of the next, and a core's own id is a peer that is always up (messages to it come back from it);
//  - after each handle() it looks at next_wake() and sends Tick at that time or soon after;
//  - every output that says "answers with" gets exactly that input, perhaps much later.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cluster/types.h"
#include "cluster/wire/message.h"
#include "engine/request.h"

namespace cheetah::cluster {

// ---- Inputs of both cores ----

struct PeerMessage {
  WorkerId from{};
  Message message{};
};
struct PeerUp {
  WorkerId peer{};
};
struct PeerDown {
  WorkerId peer{};
};
struct PeerPressed {  // it takes messages more slowly than they are sent, or has caught up
  WorkerId peer{};
  bool pressed = true;
};
// What the registry has, and what changes. While it cannot be reached nothing is said: the last known map
// stays.
struct RegistrySnapshot {
  std::vector<WorkerDescriptor> workers{};
};
struct RegistryPut {
  WorkerDescriptor worker{};
};
struct RegistryGone {  // its lease ended: nothing new goes there, but an open link goes on serving
  WorkerId worker{};
};
struct Tick {};

// ---- Outputs of both cores ----

struct SendMessage {
  WorkerId to{};
  Message message{};
};

enum class Counter : uint8_t {  // counter_name() has the names for people and Prometheus
  kRequests,
  kRejected,
  kDegraded,
  kOtherModel,
  kMigrations,
  kMigrationLimit,
  kWorkersLost,
  kStaleDropped,
  kDuplicatesDropped,
  kProbes,
  kRaces,
  kRacesWonBySecond,
  kUnavailable,
  kDeadlines,
  kRemotePrefills,
  kLocalPrefills,
  kFallbacks,
  kNoSpace,
  kBreakerOpened,
  kJobsPushed,
  kJobsDirect,
  kJobsClaimed,
  kJobsRefused,
  kSlabsImported,
  kSlabsRefused,
  kQuarantined,
  kOrphansCancelled,
  kHandedOver,
  kFlips,
  kFlipsRefused,
  kResumed,
  kResumedAnew,
  kPrefixFetches,
  kPrefixFetchesFailed,
  kCount
};
const char* counter_name(Counter counter);
const char* counter_help(Counter counter);  // one sentence for Prometheus

struct Count {
  Counter counter{};
  int64_t by = 1;
};

// One line for the decision log: what was decided about which request, and why.
struct LogDecision {
  RequestKey key{};
  std::string what{};
  std::string why{};
};

inline Microseconds micros(Duration duration) {  // a clock of another machine may be ahead
  return std::chrono::duration_cast<Microseconds>(std::max(duration, Duration{}));
}

// A uid that no other router draws: `router` is random and `counter` counts its requests.
RequestUid make_uid(WorkerId router, uint64_t counter);

// Which core of a process a message is for.
enum class Audience : uint8_t { kRouter, kWorker, kBoth };
Audience audience(const Message& message);

}  // namespace cheetah::cluster
