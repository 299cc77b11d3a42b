#pragma once
// The event bus of a cluster whose nodes are threads of one process.
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>

#include "base/mailbox.h"
#include "base/published.h"
#include "cluster/queue/event_bus.h"

namespace cheetah::cluster {

class InProcessEventBus;

// What the nodes share, and the hand that breaks it.
class EventStore {
 public:
  EventStore();
  void set_up(bool up);

 private:
  friend class InProcessEventBus;
  struct State {
    std::set<InProcessEventBus*> buses;
    ServiceState service;
  };
  mutable Published<State> state_;
};

class InProcessEventBus final : public EventBus {
 public:
  explicit InProcessEventBus(std::shared_ptr<EventStore> store);
  ~InProcessEventBus() override;

  bool publish(std::string_view subject, std::string_view bytes) override;
  SubscriptionId subscribe(std::string_view pattern, Callback callback) override;
  void unsubscribe(SubscriptionId id) override;
  ServiceState state() const override;
  int64_t num_dropped() const override { return num_dropped_; }

 private:
  // Owned by every listener that has not heard it yet.
  struct Message {
    std::string subject, bytes;
  };
  struct Subscription {
    std::string pattern;
    Callback callback;
  };

  void hear(const std::shared_ptr<const Message>& message);
  void tell(const Message& message);
  void loop();

  std::shared_ptr<EventStore> store_;  // with every other node
  std::atomic<int64_t> next_subscription_{1}, pending_bytes_{0}, num_dropped_{0};
  Mailbox<std::function<void()>> inbox_;
  std::map<SubscriptionId, Subscription> subscriptions_;  // the thread's own
  std::jthread thread_;
};

}  // namespace cheetah::cluster
