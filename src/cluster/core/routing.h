// SPDX-License-Identifier: MIT
#pragma once
// Where the router asks what to do with a request. The answers are policy/'s; LeastLoaded is what a router
// does without one.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cluster/core/router_ports.h"

namespace cheetah::cluster {

// A worker as its router sees it.
struct KnownWorker {
  WorkerDescriptor descriptor{};
  WorkerLoad load{};
  Time load_at{};   // when it came
  Time heard_at{};  // the last message of any kind
  bool linked = false;
  bool silent = false;      // linked, but not heard of for too long
  bool described = false;   // it is known what it is: an observer never says
  bool registered = false;  // the registry has it
  // What the worker says over its link wins over the registry, which anybody with access to it can write.
  bool introduced = false;         // by its own Hello
  bool own_word = false;           // role, state and epoch are the worker's own words
  std::optional<Role> ready_as{};  // the role in which the policies know it to be ready
  Cordon cordon = Cordon::kNone;   // an operator's order, by the worker's word
  bool left = false;               // the registry had it: it finishes what it has and gets nothing new
  Time held_off_until{};           // failed lately
  // Sent there by this router and not ended; what the heartbeat does not know yet.
  int64_t in_flight = 0, in_flight_tokens = 0;

  bool decodes() const { return descriptor.role == Role::kDecode || descriptor.role == Role::kBoth; }
  bool prefills() const { return descriptor.role == Role::kPrefill || descriptor.role == Role::kBoth; }
  bool reachable() const { return linked && !silent && !left && descriptor.state == WorkerState::kReady; }
  bool usable(Time now) const { return reachable() && held_off_until <= now; }
};
using KnownWorkers = std::map<WorkerId, KnownWorker>;

struct RouteQuestion {
  const ClientRequest& client;
  const KnownWorkers& workers;
  WorkerId self{};               // decode-centric: prefer this one; 0: a central router
  int64_t queue_depth = 0;       // jobs
  std::vector<WorkerId> lost{};  // workers that failed this request: only if there is no other
  int64_t generated = 0;         // tokens the client already has
  Time now{};
};

struct Placement {
  std::optional<WorkerId> decode{};  // none: no worker can now
  std::optional<WorkerId> second{};  // a race
  PrefillPlace prefill = PrefillPlace::kHere;
  std::optional<WorkerId> prefill_hint{};
  std::optional<WorkerId> fetch_from{};  // whose cache has the first fetch_tokens of the prompt
  int64_t fetch_tokens = 0;
  int64_t effective_tokens = 0;  // of the prompt, not cached at `decode` as far as is known
  std::string why{};             // scores and reasons, one line
  std::string worker_reason{}, prefill_reason{};
};

struct Admission {
  enum class Kind : uint8_t { kAccept, kDegrade, kOtherModel, kReject };
  Kind kind = Kind::kAccept;
  int64_t max_tokens = 0;                // with kDegrade
  std::string other_model{};             // with kOtherModel: its name; the request comes again for it
  std::optional<int> engine_priority{};  // of its class: GenerationRequest::priority
  Microseconds retry_after{};
  std::string refusal{};    // with kReject: the reason's name
  bool over_quota = false;  // with kReject: the client's own fault
  std::string why{};
};

// What became of a placement: for moving averages, and for whether prefilling elsewhere is worth it.
struct Outcome {
  const ClientRequest& client;
  WorkerId decode{};  // 0: none
  PrefillPlace prefill = PrefillPlace::kHere;
  int64_t effective_tokens = 0, generated = 0;
  Microseconds first_token{}, total{};
  uint32_t attempts = 0;   // 0: no worker took it
  bool completed = false;  // by the worker, not by an error, a cancel or a deadline here
  bool failed = false;     // workers that had it failed too often; lack of workers is not a failure of any
  bool fell_back = false;  // its prompt should have been computed elsewhere and could not
};

class Routing {
 public:
  virtual ~Routing() = default;
  virtual Admission admit(const RouteQuestion& question) = 0;
  virtual Placement route(const RouteQuestion& question) = 0;
  virtual void observe(const Outcome& outcome, Time now) = 0;     // of every request that admit() accepted
  virtual void worker_ready(const WorkerDescriptor& worker) = 0;  // it takes requests from now on
  virtual void forget(WorkerId worker) = 0;                       // it is gone
  virtual void learn(WorkerId from, const KvEvents& events) = 0;  // of its prefix cache
};

// Accepts all; least work in flight decodes; long prompts are prefilled elsewhere where a worker can.
class LeastLoaded : public Routing {
 public:
  explicit LeastLoaded(int64_t remote_from_tokens = 256) : remote_from_tokens_(remote_from_tokens) {}
  Admission admit(const RouteQuestion& question) override;
  Placement route(const RouteQuestion& question) override;
  void observe(const Outcome&, Time) override {}
  void worker_ready(const WorkerDescriptor&) override {}
  void forget(WorkerId) override {}
  void learn(WorkerId, const KvEvents&) override {}

 private:
  int64_t remote_from_tokens_;
};

}  // namespace cheetah::cluster
