#include "cluster/node/node.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "cluster/node/node_state.h"
#include "cluster/registry/keys.h"
#include "cluster/wire/codec.h"
#include "serve/event_log.h"

namespace cheetah::cluster {
namespace {

constexpr size_t kDecisionsKept = 256;

}  // namespace

// One round of the node's thread: what is due, then everything that came of it.
Time Node::State::turn(Time now) {
  if (now >= next_beat) beat(now);
  if (edge) edge->poll(now);
  if (router && router->next_wake() <= now) feed(RouterInput(Tick{}));
  if (worker && worker->next_wake() <= now) feed(WorkerInput(Tick{}));
  process(now);
  if (edge) edge->want_jobs(worker->jobs_wanted());
  Time wake = next_beat;
  if (router) wake = std::min(wake, router->next_wake());
  if (worker) wake = std::min(wake, worker->next_wake());
  return wake;
}

// Outputs may lead to further inputs (messages to ourselves): these come last, as over a link.
void Node::State::process(Time now) {
  while (!inputs.empty()) {
    auto input = std::move(inputs.front());
    inputs.pop_front();
    if (auto* of_router = std::get_if<RouterInput>(&input)) {
      if (!router) continue;
      router->handle(std::move(*of_router), now, router_outputs);
      for (RouterOutput& output : router_outputs) execute(output);
      router_outputs.clear();
    } else if (worker && !(parts.failpoints && struck(std::get<WorkerInput>(input)))) {
      worker->handle(std::move(std::get<WorkerInput>(input)), now, worker_outputs);
      for (WorkerOutput& output : worker_outputs) execute(output);
      worker_outputs.clear();
    }
  }
}

void Node::State::feed_both(
    const std::variant<PeerUp, PeerDown, RegistrySnapshot, RegistryPut, RegistryGone>& input) {
  std::visit(
      [this](const auto& what) {
        if (router) feed(RouterInput(what));
        if (worker) feed(WorkerInput(what));
      },
      input);
}

void Node::State::execute(RouterOutput& output) {
  if (auto* message = std::get_if<SendMessage>(&output)) return send(message->to, message->message);
  if (auto* counted = std::get_if<Count>(&output)) return count(*counted);
  if (auto* decision = std::get_if<LogDecision>(&output)) return log_decision(*decision);
  if (parts.failpoints) hit("client", "event");
  Emit& emit = std::get<Emit>(output);
  const RequestUid uid = emit.uid;
  if (emit.summary) emit.event.cluster = times_of(*emit.summary);
  if (!desk.emit(std::move(emit), std::chrono::steady_clock::now())) feed(RouterInput(ClientCancel{uid}));
}

std::shared_ptr<const ClusterTimes> Node::State::times_of(const Emit::Summary& summary) const {
  const auto name = [this](WorkerId id) {
    if (id == WorkerId{}) return std::string();
    return id == config.id ? config.name : peers.name_of(id);
  };
  const Waterfall& spent = summary.workers;
  auto times = std::make_shared<ClusterTimes>();
  *times = {.queued = spent.queued,
            .prefill = spent.prefill,
            .transfer = spent.transfer,
            .decode = spent.decode,
            .remote_tokens = spent.remote_tokens,
            .attempts = summary.attempts,
            .prefill_worker = name(spent.prefill_worker),
            .decode_worker = name(summary.decode_worker),
            .worker_reason = summary.worker_reason,
            .prefill_reason = summary.prefill_reason,
            .fallback = spent.fallback,
            .degraded = summary.degraded,
            .retry_after = summary.retry_after,
            .refusal = summary.refusal,
            .other_model = summary.other_model,
            .computed = spent.computed,
            .slabs_hidden = spent.slabs_hidden};
  for (const SlabTimes& slab : spent.slabs)
    times->slabs.push_back({slab.first_token, slab.num_tokens, slab.posted, slab.landed, slab.imported});
  return times;
}

void Node::State::execute(WorkerOutput& output) {
  if (auto* message = std::get_if<SendMessage>(&output)) return send(message->to, message->message);
  if (auto* counted = std::get_if<Count>(&output)) return count(*counted);
  if (auto* decision = std::get_if<LogDecision>(&output)) return log_decision(*decision);
  if (parts.failpoints && struck(output)) return;
  if (auto* said = std::get_if<Announce>(&output)) return announce(said->descriptor);
  if (auto* span = std::get_if<RecordSpan>(&output)) return record(*span);
  if (std::holds_alternative<Drained>(output)) {
    drained = true;
    return;
  }
  edge->execute(output);
}

void Node::State::send(WorkerId to, const Message& message) {
  if (to != config.id) {
    const Strike strike = parts.failpoints ? hit("send", message_name(message)) : Strike::kNothing;
    if (strike == Strike::kDouble) parts.mesh->send(to, encode(message));
    if (strike != Strike::kDrop) parts.mesh->send(to, encode(message));
    return;
  }
  const Audience audience = cluster::audience(message);
  if (audience != Audience::kWorker) feed(RouterInput(PeerMessage{to, message}));
  if (audience != Audience::kRouter) feed(WorkerInput(PeerMessage{to, message}));
}

void Node::State::log_decision(const LogDecision& decision) {
  const std::string key = format("{:016x}.{}", static_cast<uint64_t>(decision.key.uid),
                                 static_cast<uint32_t>(decision.key.attempt));
  decisions.push_back(format("{} {}: {}", key, decision.what, decision.why));
  if (decisions.size() > kDecisionsKept) decisions.pop_front();
  if (parts.log && parts.log->wants(LogLevel::kDebug))
    parts.log->write(LogLevel::kDebug, "decision",
                     {{"request", key}, {"what", decision.what}, {"why", decision.why}});
}

void Node::State::announce(const WorkerDescriptor& descriptor) {
  self = descriptor;
  peers.set_role(descriptor.role);
  parts.services.registry->announce(worker_key(config.id), encode_descriptor(descriptor));
}

// A few times a second: how busy we are, whether the queue is there, and numbers for whoever looks.
void Node::State::beat(Time now) {
  next_beat = now + config.heartbeat;
  if (parts.failpoints) parts.failpoints->look_again();
  plan(now);
  log_service("registry", parts.services.registry->state(), registry_is_missed, now);
  log_service("queue", parts.services.jobs->state(), queue_is_missed, now);
  const bool queue_is_up = parts.services.jobs->state().up;
  if (queue_is_up != std::exchange(queue_was_up, queue_is_up))
    feed(queue_is_up ? WorkerInput(QueueUp{}) : WorkerInput(QueueDown{}));
  if (edge) feed(WorkerInput(LoadMeasured{edge->load()}));
  if (policies)
    if (const auto outcome = policies->look(now)) log_policy(*outcome);
  desk.publish();
  publish_status();
}

// Work goes on without it, so this is how an address that is wrong shows.
void Node::State::log_service(const char* name, const ServiceState& service, bool& is_missed,
                              Time now) const {
  constexpr Duration kPatience = std::chrono::seconds(2);
  const bool missed = !service.up && !service.absent && now - service.since >= kPatience;
  if (missed == std::exchange(is_missed, missed) || !parts.log) return;
  parts.log->write(missed ? LogLevel::kWarning : LogLevel::kInfo,
                   format("{}_{}", name, missed ? "down" : "up"), {{"why", service.why}});
}

void Node::State::log_policy(const PolicyWatch::Outcome& outcome) {
  const bool taken = outcome.why_not.empty();
  if (!taken) parts.routing->count_refused_config();
  if (!parts.log) return;
  parts.log->write(taken ? LogLevel::kInfo : LogLevel::kError, taken ? "policy_taken" : "policy_refused",
                   {{"source", outcome.source}, {"why", outcome.why_not}});
}

void Node::State::publish_status() {
  NodeStatus now;
  now.self = self;
  now.counters = counters;
  if (router) now.workers = router->workers();
  if (router) now.requests = router->num_requests();
  if (worker) now.books = worker->books();
  if (edge) now.pages = edge->numbers();
  if (router) now.policy = policy_numbers(now.workers);
  if (router) now.worth = parts.routing->worth_text();
  for (const auto& [id, peer] : peers.peers()) now.links += peer.linked;
  now.registry = parts.services.registry->state();
  now.queue = parts.services.jobs->state();
  status.swap_in(now);
  std::string words = (router ? router->describe() : "") + (worker ? worker->describe() : "");
  description.swap_in(words);
  std::deque<std::string> lines = decisions;
  last_decisions.swap_in(lines);
}

ClusterNumbers Node::State::policy_numbers(const KnownWorkers& workers) const {
  ClusterNumbers numbers = parts.routing->numbers();
  for (const auto& [id, known] : workers) {
    if (!known.described) continue;
    numbers.workers.push_back({.name = known.descriptor.name,
                               .role = known.descriptor.role,
                               .ready = known.reachable(),
                               .load = known.load});
  }
  return numbers;
}

Node::Node(const NodeConfig& config, NodeParts parts)
    : state_(std::make_unique<State>(config, std::move(parts))) {}
Node::~Node() = default;

GenerationBackend& Node::backend() {
  if (state_->backend) return *state_->backend;
  return *state_->parts.engine;
}

bool Node::drain(std::chrono::milliseconds limit) {
  if (!state_->worker) return true;
  const Time until = std::chrono::steady_clock::now() + limit;
  state_->loop.post([this, limit] { state_->feed(WorkerInput(DrainRequested{limit})); });
  while (!state_->drained && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return state_->drained;
}

int64_t NodeStatus::num_decoders() const {
  return std::ranges::count_if(
      workers, [](const auto& known) { return known.second.reachable() && known.second.decodes(); });
}

NodeStatus Node::status() const { return state_->status.copy(); }
std::string Node::describe() const { return state_->description.copy(); }
WorkerId Node::id() const { return state_->config.id; }

bool Node::wait_for_workers(int64_t count, std::chrono::milliseconds limit) const {
  const Time until = std::chrono::steady_clock::now() + limit;
  while (status().num_decoders() < count) {
    if (std::chrono::steady_clock::now() >= until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

}  // namespace cheetah::cluster
