#include "cluster/core/router_core.h"

#include <algorithm>
#include <variant>

#include "base/error.h"
#include "base/format.h"
#include "cluster/core/router_state.h"

namespace cheetah::cluster {

RouterCore::RouterCore(const RouterConfig& config, Routing& routing)
    : state_(std::make_unique<State>(config, routing)) {}
RouterCore::~RouterCore() = default;

void RouterCore::handle(RouterInput input, Time now, std::vector<RouterOutput>& outputs) {
  state_->now = now;
  state_->out = &outputs;
  std::visit([&](auto& what) { state_->on(what); }, input);
  state_->run_timers();
  state_->out = nullptr;
}

Time RouterCore::next_wake() const {
  Time wake = state_->timers.empty() ? Time::max() : state_->timers.begin()->first;
  for (const auto& [id, worker] : state_->workers)
    if (worker.linked && worker.described &&
        !worker.silent)  // a look now and then tells a silent worker from a router that slept
      wake = std::min(wake, state_->last_look + state_->config.heartbeat_limit / 4);
  return wake;
}

void RouterCore::State::say(WorkerId to, Message message) {
  out->emplace_back(std::in_place_type<SendMessage>, SendMessage{to, std::move(message)});
}
void RouterCore::State::count(Counter counter) {
  out->emplace_back(std::in_place_type<Count>, Count{counter, 1});
}
void RouterCore::State::log(RequestKey key, std::string what, std::string why) {
  out->emplace_back(std::in_place_type<LogDecision>, LogDecision{key, std::move(what), std::move(why)});
}
void RouterCore::State::emit(RequestUid uid, GenerationEvent event, std::optional<Emit::Summary> summary) {
  out->emplace_back(std::in_place_type<Emit>, Emit{uid, std::move(event), std::move(summary)});
}

const KnownWorkers& RouterCore::workers() const { return state_->workers; }
int64_t RouterCore::num_requests() const { return static_cast<int64_t>(state_->requests.size()); }
void RouterCore::plant(const PlantedBugs& bugs) { state_->planted = bugs; }

std::string RouterCore::describe() const {
  std::string text;
  for (const auto& [id, worker] : state_->workers)
    text += format("worker {:016x} {} linked={} silent={} left={} state={} in_flight={}\n",
                   static_cast<uint64_t>(id), worker.descriptor.name, worker.linked, worker.silent,
                   worker.left, static_cast<int>(worker.descriptor.state), worker.in_flight);
  for (const auto& [uid, request] : state_->requests) {
    text += format("request {:016x} attempts={} failures={}", static_cast<uint64_t>(uid), request->attempts,
                   request->failures);
    for (const Leg& leg : request->legs)
      text += format(" leg {}@{:016x} next={} early={}", static_cast<uint32_t>(leg.attempt),
                     static_cast<uint64_t>(leg.worker), leg.next_sequence, leg.early.size());
    for (const ResumedChoice& choice : request->got)
      text += format(" {}{}", choice.tokens.size(), choice.finished ? "." : "");
    text += '\n';
  }
  return text;
}

void RouterCore::check_invariants() const {
  std::map<WorkerId, int64_t> in_flight;
  for (const auto& [uid, request] : state_->requests) {
    const bool waits = state_->waiting.count(uid) > 0;
    CHEETAH_ASSERT(waits == request->legs.empty(), "a request is with a worker or waits for one");
    CHEETAH_ASSERT(waits == request->waiting_since.has_value(), "who waits knows since when");
    CHEETAH_ASSERT(request->legs.size() <= 2, "at most two race");
    CHEETAH_ASSERT(state_->timers.count({request->wake, uid}) == 1, "every request has a timer");
    for (const Leg& leg : request->legs) in_flight[leg.worker] += request->client.request.best_of;
  }
  CHEETAH_ASSERT(state_->timers.size() == state_->requests.size(), "no timer without a request");
  for (const auto& [id, worker] : state_->workers)
    CHEETAH_ASSERT(worker.in_flight == in_flight[id], "what is in flight at a worker is counted");
}

}  // namespace cheetah::cluster
