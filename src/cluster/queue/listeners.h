// SPDX-License-Identifier: MIT
#pragma once
// The listening half of an event bus: who wants to hear what, and the thread they hear it on.
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "base/mailbox.h"
#include "cluster/queue/event_bus.h"

namespace cheetah::cluster {

// Any thread may call. What a slow listener cannot take in time is dropped and counted.
class Listeners {
 public:
  // Owned by every listener that has not heard it yet.
  struct Message {
    std::string subject, bytes;
  };

  Listeners();
  ~Listeners();

  EventBus::SubscriptionId add(std::string_view pattern, EventBus::Callback callback);
  void remove(EventBus::SubscriptionId id);  // no callback of it runs afterwards, unless called from one
  // For all whose pattern matches, or for one of them alone.
  void hear(
      std::shared_ptr<const Message> message, std::optional<EventBus::SubscriptionId> only = std::nullopt);
  void close();  // no callback runs afterwards; not from inside one
  int64_t num_dropped() const { return num_dropped_; }

 private:
  struct Listener {
    std::string pattern;
    EventBus::Callback callback;
  };

  void tell(const Message& message, std::optional<EventBus::SubscriptionId> only);
  void call(EventBus::SubscriptionId id, const Message& message);
  void loop();

  std::atomic<int64_t> next_id_{1}, pending_bytes_{0}, num_dropped_{0};
  Mailbox<std::function<void()>> inbox_;
  std::map<EventBus::SubscriptionId, Listener> listeners_;  // the thread's own
  std::jthread thread_;                                     // last: ends before the rest
};

}  // namespace cheetah::cluster
