// SPDX-License-Identifier: MIT
#pragma once
// The event bus of a cluster whose nodes are threads of one process.
#include <memory>
#include <set>

#include "base/published.h"
#include "cluster/queue/event_bus.h"
#include "cluster/queue/listeners.h"

namespace cheetah::cluster {

// What the nodes share, and the hand that breaks it.
class EventStore {
 public:
  EventStore();
  void set_up(bool up);

 private:
  friend class InProcessEventBus;
  struct State {
    std::set<Listeners*> nodes;
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
  void unsubscribe(SubscriptionId id) override { listeners_.remove(id); }
  ServiceState state() const override;
  int64_t num_dropped() const override { return listeners_.num_dropped(); }

 private:
  std::shared_ptr<EventStore> store_;  // with every other node
  Listeners listeners_;
};

}  // namespace cheetah::cluster
