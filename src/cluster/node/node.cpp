// SPDX-License-Identifier: MIT
#include "cluster/node/node.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "cluster/node/node_state.h"
#include "cluster/registry/keys.h"
#include "cluster/wire/codec.h"
#include "observe/event_log.h"

namespace cheetah::cluster {
namespace {

constexpr size_t kDecisionsKept = 256;

}  // namespace

// One round of the node's thread: what is due, then everything that came of it.
Time Node::State::run_once(Time now) {
  if (now >= next_beat) beat(now);
  if (edge) edge->poll(now);
  if (router && router->next_wake() <= now) feed(RouterInput(Tick{}));
  if (worker && worker->next_wake() <= now) feed(WorkerInput(Tick{}));
  process(now);
  tell_waiters();
  if (edge) edge->want_jobs(worker->jobs_wanted());
  Time wake = next_beat;
  if (router) wake = std::min(wake, router->next_wake());
  if (worker) wake = std::min(wake, worker->next_wake());
  return wake;
}

// Outputs may lead to further inputs (messages to ourselves): these come last, as over a link.
void Node::State::process(Time now) {
  while (!turn.inputs.empty()) {
    auto input = std::move(turn.inputs.front());
    turn.inputs.pop_front();
    if (auto* of_router = std::get_if<RouterInput>(&input)) {
      if (!router) continue;
      router->handle(std::move(*of_router), now, turn.router_outputs);
      for (RouterOutput& output : turn.router_outputs) execute(output);
      turn.router_outputs.clear();
    } else if (worker && !(parts.failpoints && injected(std::get<WorkerInput>(input)))) {
      worker->handle(std::move(std::get<WorkerInput>(input)), now, turn.worker_outputs);
      for (WorkerOutput& output : turn.worker_outputs) execute(output);
      turn.worker_outputs.clear();
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
  if (auto* decision = std::get_if<LogDecision>(&output)) {
    op->traces.step(
        decision->key.uid, peers.with_names(decision->what), decision->why, std::chrono::steady_clock::now());
    return log_decision(*decision);
  }
  if (parts.failpoints) hit("client", "event");
  Emit& emit = std::get<Emit>(output);
  const RequestUid uid = emit.uid;
  const Time now = std::chrono::steady_clock::now();
  if (!emit.event.tokens.empty()) op->traces.tokens(uid, std::ssize(emit.event.tokens), now);
  if (emit.summary) {
    const SharedClusterTimes times = times_of(*emit.summary);
    if (emit.event.done) op->traces.end(uid, emit.event, *times, now);
    emit.event.tag = times;
  }
  if (!clients.emit(std::move(emit), now)) feed(RouterInput(ClientCancel{uid}));
}

SharedClusterTimes Node::State::times_of(const Emit::Summary& summary) const {
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
  if (parts.failpoints && injected(output)) return;
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
    const FaultAction action = parts.failpoints ? hit("send", message_name(message)) : FaultAction::kNothing;
    const std::string bytes = encode_for(to, message);
    if (bytes.empty()) return;  // the peer's release has no such message
    if (action == FaultAction::kDouble) parts.mesh->send(to, bytes);
    if (action != FaultAction::kDrop) parts.mesh->send(to, bytes);
    return;
  }
  const Audience audience = cluster::audience(message);
  if (audience != Audience::kWorker) feed(RouterInput(PeerMessage{to, message}));
  if (audience != Audience::kRouter) feed(WorkerInput(PeerMessage{to, message}));
}

// What a peer reads it says in its Hello. Until then, and for the Hello itself, the newest will do: the release before
// reads it too, without what is new in it.
std::string Node::State::encode_for(WorkerId to, const Message& message) const {
  const KnownPeer* peer = peers.find(to);
  const bool known = peer && peer->descriptor.id == to && !std::holds_alternative<Hello>(message);
  return encode(message, known ? peer->descriptor.wire_with(config.wire) : config.wire.newest);
}

void Node::State::log_decision(const LogDecision& decision) {
  const std::string key = format(
      "{:016x}.{}", static_cast<uint64_t>(decision.key.uid), static_cast<uint32_t>(decision.key.attempt));
  decisions.add(format("{} {}: {}", key, decision.what, decision.why));
  if (parts.log && parts.log->wants(LogLevel::kDebug))
    parts.log->write(
        LogLevel::kDebug, "decision", {{"request", key}, {"what", decision.what}, {"why", decision.why}});
}

void Node::State::announce(const WorkerDescriptor& descriptor) {
  self = descriptor;
  peers.set_role(descriptor.role);
  parts.services.registry->announce(worker_key(config.id), encode_descriptor(descriptor, config.wire.newest));
}

// A few times per second: how busy we are, whether the queue is there, and numbers for observers.
void Node::State::beat(Time now) {
  next_beat = now + config.heartbeat;
  if (parts.failpoints) parts.failpoints->look_again();
  plan(now);
  sharing.beat(now);
  if (config.wire.newest > kWire.newest)  // plays the next release: it may say what nobody here knows
    for (const auto& [id, peer] : peers.peers())
      if (peer.linked) parts.mesh->send(id, unknown_message(config.wire.newest));
  log_service("registry", parts.services.registry->state(), missed.registry, now);
  log_service("queue", parts.services.jobs->state(), missed.queue, now);
  const bool queue_is_up = parts.services.jobs->state().up;
  if (queue_is_up != std::exchange(missed.queue_was_up, queue_is_up))
    feed(queue_is_up ? WorkerInput(QueueUp{}) : WorkerInput(QueueDown{}));
  op->operations.keep(now);
  if (edge) feed(WorkerInput(LoadMeasured{edge->load()}));
  if (policies)
    if (const auto outcome = policies->look(now)) log_policy(*outcome);
  clients.publish();
  publish_status();
}

// Work goes on without it, so this is how an address that is wrong shows.
void Node::State::log_service(
    const char* name, const ServiceState& service, bool& is_missed, Time now) const {
  constexpr Duration kPatience = std::chrono::seconds(2);
  const bool is_down = !service.up && !service.absent && now - service.since >= kPatience;
  if (is_down == std::exchange(is_missed, is_down) || !parts.log) return;
  parts.log->write(is_down ? LogLevel::kWarning : LogLevel::kInfo,
      format("{}_{}", name, is_down ? "down" : "up"), {{"why", service.why}});
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
  if (worker) now.outstanding = worker->outstanding();
  if (edge) now.pages = edge->numbers();
  if (router) now.policy = policy_numbers(now.workers);
  if (router) now.worth = parts.routing->worth_text();
  for (const auto& [id, peer] : peers.peers()) now.links += peer.linked;
  now.registry = parts.services.registry->state();
  now.queue = parts.services.jobs->state();
  status.swap_in(now);
  std::string words = (router ? router->describe() : "") + (worker ? worker->describe() : "");
  description.swap_in(words);
  decisions.publish();
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
  state_->wait_for([state = state_.get()] { return state->drained.load(); }, until);
  return state_->drained;
}

void Node::admin(AdminCall call, std::function<void(AdminAnswer)> done) {
  state_->loop.post([state = state_.get(), call = std::move(call), done = std::move(done)] {
    done(state->op->api->answer(call, std::chrono::steady_clock::now()));
  });
}

int64_t NodeStatus::num_decoders() const {
  return std::ranges::count_if(
      workers, [](const auto& known) { return known.second.reachable() && known.second.decodes(); });
}

NodeStatus Node::status() const { return state_->status.copy(); }
std::string Node::describe() const { return state_->description.copy(); }
WorkerId Node::id() const { return state_->config.id; }

bool Node::wait_for_workers(int64_t count, std::chrono::milliseconds limit) const {
  const auto there = [state = state_.get(), count] { return state->status.copy().num_decoders() >= count; };
  state_->wait_for(there, std::chrono::steady_clock::now() + limit);
  return there();
}

void Node::when_ready(std::function<void()> tell) {
  state_->loop.post([state = state_.get(), tell = std::move(tell)]() mutable {
    // One that an operator has cordoned is as ready as it gets.
    state->waiters.push_back(
        {[state] { return state->status.copy().self.state != WorkerState::kStarting; }, std::move(tell)});
  });
}

// Where the thread has ended, the promise is broken, and the wait ends too.
void Node::State::wait_for(std::function<bool()> condition, Time until) {
  auto holds = std::make_shared<std::promise<void>>();
  const std::future<void> told = holds->get_future();
  loop.post([this, condition = std::move(condition), holds = std::move(holds)]() mutable {
    waiters.push_back({std::move(condition), [holds = std::move(holds)] { holds->set_value(); }});
  });
  told.wait_until(until);
}

void Node::State::tell_waiters() {
  std::erase_if(waiters, [](const Waiter& waiter) {
    if (!waiter.condition()) return false;
    waiter.tell();
    return true;
  });
}

void DecisionLog::add(std::string line) {
  lines_.push_back(std::move(line));
  if (lines_.size() > kDecisionsKept) lines_.pop_front();
}

void DecisionLog::publish() {
  std::deque<std::string> copy = lines_;
  published_.swap_in(copy);
}

std::string DecisionLog::last(int64_t count) const {
  const auto lines = published_.copy();
  std::string text;
  for (size_t i = lines.size() - std::min(lines.size(), static_cast<size_t>(count)); i < lines.size(); ++i)
    text += lines[i] + "\n";
  return text;
}

}  // namespace cheetah::cluster
