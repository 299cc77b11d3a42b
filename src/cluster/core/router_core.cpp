// SPDX-License-Identifier: MIT
#include "cluster/core/router_core.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "base/error.h"
#include "base/format.h"
#include "cluster/core/overloaded.h"
#include "cluster/core/routed_requests.h"
#include "cluster/core/router_step.h"
#include "cluster/core/router_workers.h"

namespace cheetah::cluster {

// The machines of a router: the workers it knows, and the requests it has at them.
struct RouterCore::State {
  State(const RouterConfig& settings, Routing& policy)
      : config(settings), routing(policy), workers(config, policy), requests(config, policy, workers) {}

  void take(RouterInput& input, RouterStep& step);
  void hear(WorkerId from, Message& message, RouterStep& step);
  void bury_lost(RouterStep& step);

  const RouterConfig config;
  Routing& routing;
  RouterWorkers workers;
  RoutedRequests requests;
};

RouterCore::RouterCore(const RouterConfig& config, Routing& routing)
    : state_(std::make_unique<State>(config, routing)) {}
RouterCore::~RouterCore() = default;

void RouterCore::handle(RouterInput input, Time now, std::vector<RouterOutput>& outputs) {
  RouterStep step(now, outputs);
  if (state_->workers.notice_standstill(now)) state_->requests.stood_still(now);
  state_->take(input, step);
  state_->bury_lost(step);
  if (step.workers_changed) state_->requests.place_waiting(step);
  state_->workers.look_for_silent(step);
  state_->bury_lost(step);
  state_->requests.run_timers(step);
}

void RouterCore::State::take(RouterInput& input, RouterStep& step) {
  std::visit(Overloaded{[&](PeerMessage& in) {
                          workers.heard(in.from, step.now);
                          hear(in.from, in.message, step);
                          workers.tell_if_ready(in.from);
                        },
                 [&](const PeerUp& in) { workers.up(in.peer, step); },
                 [&](const PeerDown& in) { workers.down(in.peer, step); },
                 [&](const RegistrySnapshot& in) { workers.registry_has(in.workers, step); },
                 [&](const RegistryPut& in) { workers.registry_has(in.worker, step); },
                 [&](const RegistryGone& in) { workers.registry_lost(in.worker); },
                 [](const Tick&) {},  // every input looks at the timers
                 [&](ClientRequest& in) { requests.add(in, step); },
                 [&](const ClientCancel& in) { requests.cancel(in.uid, step); },
                 [&](const ClientPause& in) { requests.pause(in, step); },
                 [&](const QueueDepth& in) { requests.queue_is(in.jobs); }},
      input);
}

void RouterCore::State::hear(WorkerId from, Message& message, RouterStep& step) {
  std::visit(
      Overloaded{[&](const Hello& said) { workers.hear(from, said, step); },
          [&](const Heartbeat& said) { workers.hear(from, said, step); },
          [&](const CordonNews& said) { workers.hear(from, said); },
          [&](const KvEvents& said) { routing.learn(from, said); },
          [&](Tokens& said) { requests.hear(from, said, step); },
          [&](const GaveUp& said) { requests.hear(from, said, step); },
          [&](const ProbeAnswer& said) { requests.hear(from, said, step); },
          [&](Recalled& said) { requests.hear(from, said, step); }, [](const auto&) {}},  // for workers
      message);
}

void RouterCore::State::bury_lost(RouterStep& step) {
  for (const RouterStep::LostWorker& lost : std::exchange(step.lost, {})) {
    requests.worker_lost(lost.id, lost.why, step);
    workers.forget_if_gone(lost.id);
  }
}

Time RouterCore::next_wake() const {
  return std::min(state_->requests.next_wake(), state_->workers.next_look());
}

const KnownWorkers& RouterCore::workers() const { return state_->workers.all(); }
int64_t RouterCore::num_requests() const { return state_->requests.size(); }

std::string RouterCore::describe() const {
  std::string text;
  for (const auto& [id, worker] : state_->workers.all())
    text += format("worker {:016x} {} linked={} silent={} left={} state={} in_flight={}\n",
        static_cast<uint64_t>(id), worker.descriptor.name, worker.linked, worker.silent, worker.left,
        static_cast<int>(worker.descriptor.state), worker.in_flight);
  return text + state_->requests.describe();
}

void RouterCore::check_invariants() const { state_->requests.check_invariants(); }

}  // namespace cheetah::cluster
