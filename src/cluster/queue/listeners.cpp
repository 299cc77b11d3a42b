// SPDX-License-Identifier: MIT
#include "cluster/queue/listeners.h"

#include <future>
#include <vector>

namespace cheetah::cluster {
namespace {

constexpr int64_t kMostPendingBytes = int64_t{64} << 20;
constexpr int64_t kMessageCost = 128;  // of one that is empty

}  // namespace

Listeners::Listeners() : thread_([this] { loop(); }) {}

Listeners::~Listeners() { close(); }

void Listeners::close() {
  inbox_.close();
  if (thread_.joinable()) thread_.join();
}

EventBus::SubscriptionId Listeners::add(std::string_view pattern, EventBus::Callback callback) {
  const auto id = EventBus::SubscriptionId(next_id_++);
  inbox_.post([this, id, listener = Listener{std::string(pattern), std::move(callback)}] {
    listeners_.emplace(id, listener);
  });
  return id;
}

void Listeners::remove(EventBus::SubscriptionId id) {
  if (std::this_thread::get_id() == thread_.get_id()) {
    listeners_.erase(id);
    return;
  }
  // Owned by this call and by the message, whichever ends last.
  const auto gone = std::make_shared<std::promise<void>>();
  if (inbox_.post([this, id, gone] {
        listeners_.erase(id);
        gone->set_value();
      }))
    gone->get_future().wait();
}

void Listeners::hear(std::shared_ptr<const Message> message, std::optional<EventBus::SubscriptionId> only) {
  const auto cost = static_cast<int64_t>(message->bytes.size()) + kMessageCost;
  if (pending_bytes_ + cost > kMostPendingBytes) {
    ++num_dropped_;
    return;
  }
  pending_bytes_ += cost;
  inbox_.post([this, message = std::move(message), only, cost] {
    pending_bytes_ -= cost;
    tell(*message, only);
  });
}

void Listeners::tell(const Message& message, std::optional<EventBus::SubscriptionId> only) {
  if (only) return call(*only, message);
  std::vector<EventBus::SubscriptionId> listening;
  for (const auto& [id, listener] : listeners_)
    if (matches(listener.pattern, message.subject)) listening.push_back(id);
  for (const auto id : listening) call(id, message);
}

// A callback may end its own subscription or another one.
void Listeners::call(EventBus::SubscriptionId id, const Message& message) {
  const auto listener = listeners_.find(id);
  if (listener == listeners_.end()) return;
  const EventBus::Callback callback = listener->second.callback;  // outlives its subscription
  callback(message.subject, message.bytes);
}

void Listeners::loop() {
  std::vector<std::function<void()>> tasks;
  while (inbox_.wait()) {
    inbox_.take_all(tasks);
    for (const auto& task : tasks) task();
  }
}

}  // namespace cheetah::cluster
