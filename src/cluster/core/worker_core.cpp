#include "cluster/core/worker_core.h"

#include <algorithm>
#include <set>
#include <variant>

#include "base/error.h"
#include "base/format.h"
#include "cluster/core/worker_state.h"

namespace cheetah::cluster {

const char* state_name(RequestState state) {
  static constexpr const char* kNames[] = {"received",     "wait_space", "queued_remote", "prefilling",
                                           "transferring", "ready",      "decoding",      "done"};
  return kNames[static_cast<size_t>(state)];
}

WorkerCore::WorkerCore(const WorkerConfig& config) : state_(std::make_unique<State>(config)) {}
WorkerCore::~WorkerCore() = default;

void WorkerCore::handle(WorkerInput input, Time now, std::vector<WorkerOutput>& outputs) {
  state_->now = now;
  state_->out = &outputs;
  std::visit([&](auto& what) { state_->on(what); }, input);
  state_->run_timers();
  state_->go_on_if_idle();
  state_->out = nullptr;
}

Time WorkerCore::next_wake() const {
  return std::min({state_->serving_timers.next(), state_->job_timers.next(), state_->fence_timers.next(),
                   state_->drain_until});
}

int WorkerCore::jobs_wanted() const {
  if (!state_->prefills()) return 0;
  return std::max(0, state_->config.max_jobs - static_cast<int>(state_->jobs.size()));
}

const WorkerDescriptor& WorkerCore::descriptor() const { return state_->self; }
void WorkerCore::plant(const PlantedBugs& bugs) { state_->planted = bugs; }
int64_t WorkerCore::num_peers() const { return static_cast<int64_t>(state_->peers.size()); }

WorkerCore::Books WorkerCore::books() const {
  Books books{.requests = static_cast<int64_t>(state_->servings.size()),
              .jobs = static_cast<int64_t>(state_->jobs.size()),
              .reservations = static_cast<int64_t>(state_->receivings.size())};
  for (const auto& [id, receiving] : state_->receivings) books.quarantined += receiving.abandoned ? 1 : 0;
  for (const auto& [key, job] : state_->jobs) books.exports += job->exporting ? 1 : 0;
  return books;
}

std::string WorkerCore::describe() const {
  std::string text = format("role={} state={} epoch={} queue={}\n", static_cast<int>(state_->self.role),
                            static_cast<int>(state_->self.state), state_->self.epoch, state_->queue_up);
  for (const auto& [key, serving] : state_->servings)
    text += format("request {:016x}.{} {} sent={}{}\n", static_cast<uint64_t>(key.uid),
                   static_cast<uint32_t>(key.attempt), state_name(serving->state), serving->next_sequence,
                   serving->cancelled ? " cancelled" : "");
  for (const auto& [id, receiving] : state_->receivings)
    text += format("reservation {} of {:016x} writer={:016x} stopped={} importing={} abandoned={}\n",
                   static_cast<uint64_t>(id), static_cast<uint64_t>(receiving.owner.uid),
                   static_cast<uint64_t>(receiving.writer), receiving.stopped, receiving.importing,
                   receiving.abandoned);
  for (const auto& [key, job] : state_->jobs)
    text += format("job {:016x}.{} stage={} posted={} answered={}\n", static_cast<uint64_t>(key.uid),
                   static_cast<uint32_t>(key.attempt), static_cast<int>(job->stage), job->slabs.size(),
                   job->num_answered);
  return text;
}

void WorkerCore::check_invariants() const {
  for (const auto& [key, serving] : state_->servings) {
    const bool waits = !serving->submitted;
    CHEETAH_ASSERT(!waits || serving->state < RequestState::kReady, "the engine has what is ready");
    CHEETAH_ASSERT(!waits || !serving->cancelled, "only the engine needs time to end a request");
    if (!serving->reservation) continue;
    const auto receiving = state_->receivings.find(*serving->reservation);
    CHEETAH_ASSERT(receiving != state_->receivings.end(), "a request's reservation is in the books");
    CHEETAH_ASSERT(!receiving->second.abandoned, "and is not given up while the request waits for it");
  }
  for (const auto& [id, receiving] : state_->receivings) {
    if (receiving.abandoned) continue;
    const auto serving = state_->servings.find(receiving.owner);
    CHEETAH_ASSERT(serving != state_->servings.end() && serving->second->reservation == id,
                   "a reservation has an owner or is given up");
  }
  for (const auto& [key, job] : state_->jobs)
    CHEETAH_ASSERT(job->num_answered <= job->slabs.size(), "a slab is answered once");
}

void WorkerCore::State::say(WorkerId to, Message message) {
  out->emplace_back(std::in_place_type<SendMessage>, SendMessage{to, std::move(message)});
}
void WorkerCore::State::count(Counter counter) {
  out->emplace_back(std::in_place_type<Count>, Count{counter, 1});
}
void WorkerCore::State::log(RequestKey key, std::string what, std::string why) {
  out->emplace_back(std::in_place_type<LogDecision>, LogDecision{key, std::move(what), std::move(why)});
}

void WorkerCore::State::on(PeerMessage& input) {
  std::visit([&](auto& message) { on_message(input.from, message); }, input.message);
}

void WorkerCore::State::on(const PeerUp& input) {
  Peer& peer = peers[input.peer];
  peer.descriptor.id = input.peer;
  peer.linked = true;
  peer.pressed = false;
  say(input.peer, Hello{self});
  say(input.peer, Heartbeat{.role = self.role, .state = self.state, .epoch = self.epoch, .load = load});
}

// A router that is gone wants no answers; a prefill worker that is gone writes no more pages, once its
// endpoint is closed; for a decode worker that is gone nothing need be computed.
void WorkerCore::State::on(const PeerDown& input) {
  const auto peer = peers.find(input.peer);
  if (peer == peers.end() || !peer->second.linked) return;
  peer->second.linked = false;
  peer->second.descriptor.state = WorkerState::kStarting;
  std::vector<RequestKey> orphans, prompts, unwanted;
  for (const auto& [key, serving] : servings) {
    if (serving->router == input.peer && !planted.ignore_lost_router) orphans.push_back(key);
    if (!serving->reservation) continue;
    const Receiving& receiving = receivings.at(*serving->reservation);
    const bool nobody_left = serving->state == RequestState::kQueuedRemote && !prefill_peer(WorkerId{});
    if (nobody_left || (receiving.writer == input.peer && !receiving.stopped)) prompts.push_back(key);
  }
  for (const auto& [key, job] : jobs)
    if (job->job.reply_to == input.peer) unwanted.push_back(key);
  for (const RequestKey key : orphans) {
    count(Counter::kOrphansCancelled);
    stop_serving(key);
  }
  for (const RequestKey key : prompts)
    if (const auto serving = servings.find(key); serving != servings.end())
      fall_back(*serving->second, "its prefill worker is lost");
  for (const RequestKey key : unwanted) stop_job(key, {});
  std::vector<ReservationId> open;
  for (const auto& [id, receiving] : receivings)
    if (receiving.writer == input.peer && !receiving.stopped) open.push_back(id);
  for (const ReservationId id : open) fence(id);
  if (!peer->second.registered) peers.erase(peer);  // an id is one life: it does not come back
}

void WorkerCore::State::on(const RegistrySnapshot& input) {
  for (const WorkerDescriptor& worker : input.workers) on(RegistryPut{worker});
}

void WorkerCore::State::on(const RegistryPut& input) { describe_peer(input.worker).registered = true; }

Peer& WorkerCore::State::describe_peer(const WorkerDescriptor& descriptor) {
  Peer& peer = peers[descriptor.id];
  if (descriptor.epoch >= peer.descriptor.epoch) peer.descriptor = descriptor;
  return peer;
}

void WorkerCore::State::on(const RegistryGone& input) {
  const auto peer = peers.find(input.worker);
  if (peer == peers.end()) return;
  peer->second.registered = false;
  if (!peer->second.linked) peers.erase(peer);
}

void WorkerCore::State::on_message(WorkerId from, const Hello& message) {
  if (message.descriptor.id == from) describe_peer(message.descriptor);
}

void WorkerCore::State::on_message(WorkerId from, const Heartbeat& message) {
  Peer& peer = peers[from];
  peer.load = message.load;
  if (message.epoch < peer.descriptor.epoch) return;
  peer.descriptor.role = message.role;
  peer.descriptor.state = message.state;
  peer.descriptor.epoch = message.epoch;
}

bool WorkerCore::State::linked(WorkerId peer) const {
  if (peer == self.id) return true;
  const auto found = peers.find(peer);
  return found != peers.end() && found->second.linked;
}

void WorkerCore::State::run_timers() {
  while (const auto key = serving_timers.take_due(now)) {
    const auto serving = servings.find(*key);
    if (serving == servings.end()) continue;
    if (serving->second->submitted)
      stop_serving(*key);  // long past its deadline: whoever asked has stopped waiting, and the word got lost
    else
      fall_back(*serving->second,
                format("it waited too long in the state {}", state_name(serving->second->state)));
  }
  while (const auto key = job_timers.take_due(now)) look_at_job(*key);
  while (const auto id = fence_timers.take_due(now)) fence(*id);
  if (now >= drain_until) {
    drain_until = Time::max();
    hand_over();
  }
}

}  // namespace cheetah::cluster
