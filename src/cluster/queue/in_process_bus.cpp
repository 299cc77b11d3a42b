#include "cluster/queue/in_process_bus.h"

#include <future>
#include <vector>

namespace cheetah::cluster {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMostMessageBytes = 1'000'000;
constexpr int64_t kMostPendingBytes = int64_t{64} << 20;  // of one slow listener
constexpr int64_t kMessageCost = 128;                     // of one that is empty

}  // namespace

EventStore::EventStore() : state_(State{.buses = {}, .service = {true, Clock::now(), {}}}) {}

void EventStore::set_up(bool up) {
  state_.with([&](State& state) {
    if (state.service.up != up)
      state.service = {up, Clock::now(), up ? "" : "the in-process event bus was taken down"};
  });
}

InProcessEventBus::InProcessEventBus(std::shared_ptr<EventStore> store)
    : store_(std::move(store)), thread_([this] { loop(); }) {
  store_->state_.with([&](EventStore::State& state) { state.buses.insert(this); });
}

InProcessEventBus::~InProcessEventBus() {
  store_->state_.with([&](EventStore::State& state) { state.buses.erase(this); });
  inbox_.close();
  thread_.join();
}

// The lock is held while listeners are told, which only posts: so all hear one publisher in its order.
bool InProcessEventBus::publish(std::string_view subject, std::string_view bytes) {
  check_subject(subject);
  if (bytes.size() > kMostMessageBytes) return false;
  const auto message = std::make_shared<const Message>(Message{std::string(subject), std::string(bytes)});
  return store_->state_.with([&](EventStore::State& state) {
    if (!state.service.up) return false;
    for (InProcessEventBus* bus : state.buses) bus->hear(message);
    return true;
  });
}

void InProcessEventBus::hear(const std::shared_ptr<const Message>& message) {
  const auto cost = static_cast<int64_t>(message->bytes.size()) + kMessageCost;
  if (pending_bytes_ + cost > kMostPendingBytes) {
    ++num_dropped_;
    return;
  }
  pending_bytes_ += cost;
  inbox_.post([this, message, cost] {
    pending_bytes_ -= cost;
    tell(*message);
  });
}

EventBus::SubscriptionId InProcessEventBus::subscribe(std::string_view pattern, Callback callback) {
  check_pattern(pattern);
  const auto id = SubscriptionId(next_subscription_++);
  inbox_.post([this, id, subscription = Subscription{std::string(pattern), std::move(callback)}] {
    subscriptions_.emplace(id, subscription);
  });
  return id;
}

void InProcessEventBus::unsubscribe(SubscriptionId id) {
  if (std::this_thread::get_id() == thread_.get_id()) {
    subscriptions_.erase(id);
    return;
  }
  // Owned by this call and by the message, whichever ends last.
  const auto gone = std::make_shared<std::promise<void>>();
  if (inbox_.post([this, id, gone] {
        subscriptions_.erase(id);
        gone->set_value();
      }))
    gone->get_future().wait();
}

ServiceState InProcessEventBus::state() const {
  return store_->state_.with([](const EventStore::State& state) { return state.service; });
}

// A callback may end its own subscription or another one.
void InProcessEventBus::tell(const Message& message) {
  std::vector<SubscriptionId> listening;
  for (const auto& [id, subscription] : subscriptions_)
    if (matches(subscription.pattern, message.subject)) listening.push_back(id);
  for (const auto id : listening) {
    const auto subscription = subscriptions_.find(id);
    if (subscription == subscriptions_.end()) continue;
    const Callback callback = subscription->second.callback;  // outlives its subscription
    callback(message.subject, message.bytes);
  }
}

void InProcessEventBus::loop() {
  std::vector<std::function<void()>> tasks;
  while (inbox_.wait()) {
    inbox_.take_all(tasks);
    for (const auto& task : tasks) task();
  }
}

}  // namespace cheetah::cluster
