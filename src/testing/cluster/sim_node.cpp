// SPDX-License-Identifier: MIT
#include "testing/cluster/sim_node.h"

#include <algorithm>
#include <utility>

#include "base/format.h"
#include "cluster/policy/policy_routing.h"
#include "testing/cluster/sim_cluster.h"

namespace cheetah::cluster::simulation {
namespace {

// Times short enough that a run of some seconds sees every one of them end.
WorkerConfig worker_config(WorkerId id, const NodeSpec& spec) {
  WorkerConfig config;
  config.descriptor.id = id;
  config.descriptor.name = spec.name;
  config.descriptor.role = spec.role;
  config.descriptor.state = WorkerState::kReady;
  config.descriptor.kv.page_tokens = kPageTokens;
  config.descriptor.max_sequences = 32;
  config.descriptor.max_context = 4096;
  config.descriptor.wire = spec.wire.newest;
  config.slab_tokens = 2 * kPageTokens;
  config.min_remote_tokens = 2 * kPageTokens;
  config.max_reservations = 6;
  config.space_wait = milliseconds(60);
  config.claim_wait = milliseconds(500);
  config.stall_limit = milliseconds(600);
  config.news_every = milliseconds(200);
  config.progress_limit = milliseconds(2000);
  config.claim_answer_wait = milliseconds(300);
  config.extend_every = milliseconds(1000);
  config.fence_after = milliseconds(200);
  config.remember = milliseconds(30000);
  config.breaker_open = milliseconds(700);
  config.drain_limit = milliseconds(400);
  config.min_dwell = milliseconds(800);
  return config;
}

std::unique_ptr<Routing> make_routing(bool policies) {
  if (!policies) return std::make_unique<LeastLoaded>(12);
  PolicyConfig config;
  config.routing.offload_policy = OffloadPolicy::kThreshold;
  config.routing.threshold.prefill_length = 12;
  config.routing.threshold.moderate_length = 8;
  config.qos.prefill_breaker.open_ms = config.qos.decode_breaker.open_ms = 500;
  config.qos.prefill_breaker.max_open_ms = config.qos.decode_breaker.max_open_ms = 1000;
  return std::make_unique<PolicyRouting>(config);
}

RouterConfig router_config(WorkerId id, bool prefer_self, PlantedBug bug) {
  RouterConfig config;
  config.self = id;
  config.prefer_self = prefer_self;
  config.heartbeat_limit = milliseconds(1200);
  config.hold_off = milliseconds(800);
  config.probe_after = milliseconds(400);
  config.no_worker_wait = milliseconds(1500);
  config.resume_wait = milliseconds(4000);
  config.deadline_grace = milliseconds(300);
  config.recall_wait = milliseconds(150);
  config.default_time_limit = milliseconds(20000);
  if (bug == PlantedBug::kCountsBadLuck) config.settle = {};
  return config;
}

}  // namespace

SimNode::SimNode(SimCluster& cluster, WorkerId id, const NodeSpec& spec, Duration clock_offset)
    : cluster_(cluster),
      simulation_(cluster.simulation()),
      id_(id),
      spec_(spec),
      clock_offset_(clock_offset),
      routing_(make_routing(cluster.uses_policies())),
      worker_bug_(cluster.bug()),
      router_bug_(cluster.bug()),
      pages_(cluster, *this),
      queue_(cluster.queue()) {
  const auto later = [this](Duration delay, std::function<void()> what) {
    cluster_.on(id_, delay, std::move(what));
  };
  const auto tell_worker = [this](WorkerInput input) {
    auto shared = std::make_shared<WorkerInput>(std::move(input));
    cluster_.on(id_, Duration{}, [this, shared] { tell(std::move(*shared)); });
  };
  EngineTimes times;
  times.failure = cluster.rates().engine;
  engine_ =
      std::make_unique<OracleEngine>(simulation_, times, later, tell_worker, [this] { return clock(); });
  if (spec.worker) {
    worker_ = std::make_unique<WorkerCore>(worker_config(id, spec));
    if (cluster.queue().up()) tell(WorkerInput(QueueUp{}));
    cluster_.on(id_, simulation_.between(0, 300), [this] { beat(); });
  }
  if (spec.router) {
    router_ = std::make_unique<RouterCore>(router_config(id, spec.worker, cluster.bug()), *routing_);
    if (spec.worker) tell(RouterInput(PeerUp{id}));
    if (spec.worker) tell(RouterInput(PeerMessage{id, Hello{worker_->descriptor()}}));
  }
}

Time SimNode::clock() const { return simulation_.now() + clock_offset_; }

void SimNode::beat() {
  tell(WorkerInput(LoadMeasured{engine_->load()}));
  if (router_) {
    const WorkerDescriptor& self = worker_->descriptor();
    tell(RouterInput(PeerMessage{id_,
        Heartbeat{.role = self.role, .state = self.state, .epoch = self.epoch, .load = engine_->load()}}));
  }
  cluster_.on(id_, milliseconds(300), [this] { beat(); });
}

void SimNode::tell(WorkerInput input) {
  if (dead_) return;
  std::vector<WorkerOutput> outputs;
  worker_bug_.handle(*worker_, std::move(input), clock(), outputs);
  if (cluster_.bug() == PlantedBug::kNone) worker_->check_invariants();
  for (WorkerOutput& output : outputs) {
    cluster_.may_crash(*this);
    if (dead_) return;
    std::visit([&](auto& what) { execute(what); }, output);
  }
  if (dead_) return;
  arm();
  if (!cluster_.queue().empty_of_waiting() && jobs_wanted() > 0) cluster_.queue().pump();
}

void SimNode::tell(RouterInput input) {
  if (dead_) return;
  std::vector<RouterOutput> outputs;
  router_bug_.handle(*router_, std::move(input), clock(), outputs);
  if (cluster_.bug() == PlantedBug::kNone) router_->check_invariants();
  for (RouterOutput& output : outputs) {
    cluster_.may_crash(*this);
    if (dead_) return;
    std::visit([&](auto& what) { execute(what); }, output);
  }
  arm();
}

void SimNode::arm() {
  Time wake = Time::max();
  if (worker_) wake = std::min(wake, worker_->next_wake());
  if (router_) wake = std::min(wake, router_->next_wake());
  if (wake >= armed_) return;
  armed_ = wake;
  cluster_.on(id_, wake - clock(), [this, wake] {
    if (armed_ != wake) return;
    armed_ = Time::max();
    if (worker_ && worker_->next_wake() <= clock()) tell(WorkerInput(Tick{}));
    if (router_ && router_->next_wake() <= clock()) tell(RouterInput(Tick{}));
    arm();
  });
}

void SimNode::run_or_keep(std::function<void()> what) {
  if (stopped_)
    kept_.push_back(std::move(what));
  else
    what();
}

void SimNode::go_on() {
  stopped_ = false;
  std::vector<std::function<void()>> kept = std::exchange(kept_, {});
  for (auto& what : kept) {
    if (dead_) return;
    what();
  }
}

void SimNode::receive(WorkerId from, Message message) {
  const Audience who = audience(message);
  if (who != Audience::kWorker && router_) tell(RouterInput(PeerMessage{from, message}));
  if (who != Audience::kRouter && worker_) tell(WorkerInput(PeerMessage{from, std::move(message)}));
}

void SimNode::job_comes(DeliveryId delivery, const PrefillJob& job) {
  --jobs_coming_;
  tell(WorkerInput(JobDelivered{delivery, job}));
}

void SimNode::execute(const SendMessage& output) { cluster_.network().send(id_, output.to, output.message); }
void SimNode::execute(const Count& output) { cluster_.count(output.counter); }
void SimNode::execute(const LogDecision& output) {
  if (!simulation_.logs()) return;
  simulation_.log(format("{} decides {:016x}.{}: {} ({})", spec_.name, static_cast<uint64_t>(output.key.uid),
      static_cast<uint32_t>(output.key.attempt), output.what, output.why));
}
void SimNode::execute(Emit& output) { cluster_.clients().emit(id_, output); }
void SimNode::execute(const EngineSubmit& output) {
  engine_->submit(output);
  cluster_.request_submitted(*this, output);
}

void SimNode::execute(const Announce& output) { cluster_.announce(output.descriptor); }
void SimNode::execute(const WarmUp&) {
  cluster_.on(id_, simulation_.between(5, 60), [this] { tell(WorkerInput(WarmedUp{})); });
}

std::string SimNode::what_is_left() const {
  std::string left;
  if (worker_) {
    const WorkerCore::Outstanding outstanding = worker_->outstanding();
    if (outstanding.requests + outstanding.jobs + outstanding.reservations > 0)
      left += format("{} requests, {} jobs, {} reservations in the worker; ", outstanding.requests,
          outstanding.jobs, outstanding.reservations);
  }
  if (router_ && router_->num_requests() > 0)
    left += format("{} requests at the router; ", router_->num_requests());
  if (engine_->num_running() > 0) left += format("{} requests in the engine; ", engine_->num_running());
  if (engine_->num_pins() > 0) left += format("{} pins; ", engine_->num_pins());
  if (engine_->num_exports() > 0) left += format("{} exports; ", engine_->num_exports());
  left += pages_.what_is_left();
  if (left.empty()) return left;
  return left + "\n" + (worker_ ? worker_->describe() : "") + (router_ ? router_->describe() : "");
}

}  // namespace cheetah::cluster::simulation
