// SPDX-License-Identifier: MIT
#include "cluster/core/worker_core.h"

#include <algorithm>
#include <variant>

#include "base/error.h"
#include "base/format.h"
#include "base/names.h"
#include "cluster/core/answers.h"
#include "cluster/core/overloaded.h"
#include "cluster/core/page_receiver.h"
#include "cluster/core/prefill_jobs.h"
#include "cluster/core/serving.h"
#include "cluster/core/worker_peers.h"
#include "cluster/core/worker_roles.h"
#include "cluster/core/worker_step.h"

namespace cheetah::cluster {

// The machines of a worker. Each owns its state and takes the step it works in; what one has to know of
// another it asks the one above it.
struct WorkerCore::State {
  explicit State(const WorkerConfig& settings)
      : config(settings),
        peers(settings.descriptor.id),
        roles(config, peers),
        ended(settings.remember),
        pages(config, peers, servings),
        jobs(config, peers, roles),
        answers({config, peers, roles, pages, ended, servings}) {}

  void take(WorkerInput& input, WorkerStep& step);
  void hear(WorkerId from, Message& message, WorkerStep& step);
  void cancel(WorkerId from, RequestKey key, WorkerStep& step);
  void peer_lost(WorkerId peer, WorkerStep& step);
  void run_timers(WorkerStep& step);

  const WorkerConfig config;
  WorkerPeers peers;
  WorkerRoles roles;
  Servings servings;
  EndedRequests ended;
  PageReceiver pages;
  PrefillJobs jobs;
  Answers answers;
};

const char* state_name(RequestState state) {
  static constexpr auto kNames = enum_names<RequestState>({{RequestState::kReceived, "received"},
      {RequestState::kWaitSpace, "wait_space"}, {RequestState::kQueuedRemote, "queued_remote"},
      {RequestState::kPrefilling, "prefilling"}, {RequestState::kTransferring, "transferring"},
      {RequestState::kReady, "ready"}, {RequestState::kDecoding, "decoding"}, {RequestState::kDone, "done"}});
  return kNames[state].data();
}

WorkerCore::WorkerCore(const WorkerConfig& config) : state_(std::make_unique<State>(config)) {}
WorkerCore::~WorkerCore() = default;

void WorkerCore::handle(WorkerInput input, Time now, std::vector<WorkerOutput>& outputs) {
  WorkerStep step(now, outputs);
  state_->take(input, step);
  state_->answers.submit_ready(step);
  state_->run_timers(step);
  const Outstanding left = outstanding();
  if (left.requests + left.jobs + left.reservations == 0) state_->roles.nothing_left(step);
}

void WorkerCore::State::take(WorkerInput& input, WorkerStep& step) {
  std::visit(
      Overloaded{[&](PeerMessage& in) { hear(in.from, in.message, step); },
          [&](const PeerUp& in) {
            peers.up(in.peer);
            roles.greet(in.peer, step);
          },
          [&](const PeerDown& in) { peer_lost(in.peer, step); },
          [&](const PeerPressed& in) {
            peers.press(in.peer, in.pressed);
            answers.pressure_changed(in.peer, step);
          },
          [&](const RegistrySnapshot& in) {
            for (const WorkerDescriptor& worker : in.workers) peers.registry_has(worker);
          },
          [&](const RegistryPut& in) { peers.registry_has(in.worker); },
          [&](const RegistryGone& in) { peers.registry_lost(in.worker); },
          [](const Tick&) {},  // every input looks at the timers
          [&](EngineEvent& in) { answers.on(in, step); }, [&](const CacheLooked& in) { pages.on(in, step); },
          [&](const SpaceReserved& in) { pages.on(in, step); },
          [&](const SlabImported& in) { pages.on(in, step); },
          [&](const ReservationFenced& in) { pages.on(in, step); },
          [&](const ExportProgress& in) { jobs.on(in, step); },
          [&](const SlabSent& in) { jobs.on(in, step); }, [&](const WritesFenced& in) { jobs.on(in, step); },
          [&](JobDelivered& in) { jobs.on(in, step); }, [&](const QueueUp&) { pages.queue_is(true); },
          [&](const QueueDown&) { pages.queue_is(false); },
          [&](const DrainRequested& in) { roles.drain(in.limit, step); },
          [&](const CordonOrdered& in) { roles.cordon(in, step); },
          [&](const WarmedUp&) { roles.warmed_up(step); },
          [&](const LoadMeasured& in) { roles.load_is(in.load, step); }},
      input);
}

void WorkerCore::State::hear(WorkerId from, Message& message, WorkerStep& step) {
  std::visit(Overloaded{[&](const Hello& said) { peers.hear(from, said); },
                 [&](const Heartbeat& said) { peers.hear(from, said); },
                 [&](Generate& said) { answers.hear(from, said, step); },
                 [&](const Pause& said) { answers.hear(from, said, step); },
                 [&](const Probe& said) { answers.hear(from, said, step); },
                 [&](const Cancel& said) { cancel(from, said.key, step); },
                 [&](const FetchFrom& said) { answers.hear(said); },
                 [&](FetchJob& said) { jobs.hear(from, said, step); },
                 [&](PrefillJob& said) { jobs.hear(from, said, step); },
                 [&](const ClaimAnswer& said) { jobs.hear(from, said, step); },
                 [&](const Claimed& said) { pages.hear(from, said, step); },
                 [&](const SlabPosted& said) { pages.hear(from, said, step); },
                 [&](const PrefillDone& said) { pages.hear(from, said, step); },
                 [&](const PrefillFailed& said) { pages.hear(from, said, step); },
                 [&](const WritesStopped& said) { pages.hear(from, said, step); },
                 [&](const PrefillNews& said) { pages.hear(from, said, step); },
                 [&](const Drain& said) { roles.drain(said.limit, step); },
                 [&](const FlipRole& said) { roles.flip(said, step); },
                 [&](const Recall& said) { answers.hear(from, said, step); }, [](const Tokens&) {},
                 [](const GaveUp&) {}, [](const ProbeAnswer&) {}, [](const Recalled&) {},  // for routers
                 [](const KvEvents&) {}, [](const KvSnapshot&) {}, [](const QuotaNews&) {},
                 [](const AskCache&) {},                           // the edge knows the cache
                 [](const Orders&) {}, [](const CordonNews&) {}},  // the node's
      message);
}

// From a router about a request, or from a decode worker about a job, which wants to hear that the writing
// has stopped also where the job is long forgotten.
void WorkerCore::State::cancel(WorkerId from, RequestKey key, WorkerStep& step) {
  if (answers.cancel(from, key, step) || jobs.cancel(from, key, step)) return;
  ended.add(key, step.now);  // should its Generate come later than its Cancel
  step.say(from, WritesStopped{key});
}

// A router that is gone wants no answers; a prefill worker that is gone writes no more pages; for a decode
// worker that is gone nothing need be computed.
void WorkerCore::State::peer_lost(WorkerId peer, WorkerStep& step) {
  if (!peers.down(peer)) return;
  answers.peer_lost(peer, step);
  pages.peer_lost(peer, step);
  jobs.peer_lost(peer, step);
  peers.forget_if_gone(peer);
}

void WorkerCore::State::run_timers(WorkerStep& step) {
  answers.run_timers(step);
  pages.run_waits(step);
  answers.submit_ready(step);
  jobs.run_timers(step);
  pages.run_fences(step);
  if (!roles.drain_time_is_up(step.now)) return;
  answers.hand_over(step);
  jobs.hand_over(step);
}

Time WorkerCore::next_wake() const {
  return std::min({state_->answers.next_wake(), state_->pages.next_wake(), state_->jobs.next_wake(),
      state_->roles.next_wake()});
}

int WorkerCore::jobs_wanted() const { return state_->jobs.wanted(); }
const WorkerDescriptor& WorkerCore::descriptor() const { return state_->roles.self(); }
int64_t WorkerCore::num_peers() const { return state_->peers.size(); }

WorkerCore::Outstanding WorkerCore::outstanding() const {
  return {.requests = static_cast<int64_t>(state_->servings.size()),
      .jobs = state_->jobs.size(),
      .reservations = state_->pages.num_reservations(),
      .quarantined = state_->pages.num_abandoned(),
      .exports = state_->jobs.num_exports()};
}

std::string WorkerCore::describe() const {
  const WorkerDescriptor& self = descriptor();
  return format("role={} state={} epoch={} queue={}\n", static_cast<int>(self.role),
             static_cast<int>(self.state), self.epoch, state_->pages.queue_up()) +
         state_->answers.describe() + state_->pages.describe() + state_->jobs.describe();
}

void WorkerCore::check_invariants() const {
  state_->answers.check_invariants();
  state_->pages.check_invariants();
  state_->jobs.check_invariants();
}

}  // namespace cheetah::cluster
