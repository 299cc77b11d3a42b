// SPDX-License-Identifier: MIT
#include "cluster/queue/in_process_bus.h"

namespace cheetah::cluster {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMostMessageBytes = 1'000'000;

}  // namespace

EventStore::EventStore() : state_(State{.nodes = {}, .service = {true, Clock::now(), {}}}) {}

void EventStore::set_up(bool up) {
  state_.with([&](State& state) {
    if (state.service.up != up)
      state.service = {up, Clock::now(), up ? "" : "the in-process event bus was taken down"};
  });
}

InProcessEventBus::InProcessEventBus(std::shared_ptr<EventStore> store) : store_(std::move(store)) {
  store_->state_.with([&](EventStore::State& state) { state.nodes.insert(&listeners_); });
}

InProcessEventBus::~InProcessEventBus() {
  store_->state_.with([&](EventStore::State& state) { state.nodes.erase(&listeners_); });
}

// The lock is held while listeners are told, which only posts: so all hear one publisher in its order.
bool InProcessEventBus::publish(std::string_view subject, std::string_view bytes) {
  check_subject(subject);
  if (bytes.size() > kMostMessageBytes) return false;
  const auto message = std::make_shared<const Listeners::Message>(
      Listeners::Message{std::string(subject), std::string(bytes)});
  return store_->state_.with([&](EventStore::State& state) {
    if (!state.service.up) return false;
    for (Listeners* node : state.nodes) node->hear(message);
    return true;
  });
}

EventBus::SubscriptionId InProcessEventBus::subscribe(std::string_view pattern, Callback callback) {
  check_pattern(pattern);
  return listeners_.add(pattern, std::move(callback));
}

ServiceState InProcessEventBus::state() const {
  return store_->state_.with([](const EventStore::State& state) { return state.service; });
}

}  // namespace cheetah::cluster
