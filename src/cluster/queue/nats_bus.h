// SPDX-License-Identifier: MIT
#pragma once
// The event bus in NATS: plain publish and subscribe, without memory.
#include <map>
#include <memory>
#include <string>

#include "base/published.h"
#include "cluster/queue/event_bus.h"
#include "cluster/queue/listeners.h"
#include "cluster/queue/nats_link.h"

namespace cheetah::cluster {

class NatsSubscription;

class NatsEventBus final : public EventBus {
 public:
  NatsEventBus(std::shared_ptr<NatsLink> link, const std::string& cluster);
  ~NatsEventBus() override;

  bool publish(std::string_view subject, std::string_view bytes) override;
  SubscriptionId subscribe(std::string_view pattern, Callback callback) override;
  void unsubscribe(SubscriptionId id) override;
  ServiceState state() const override { return link_->state(); }
  int64_t num_dropped() const override { return listeners_->num_dropped(); }

 private:
  struct Wanted {
    std::string pattern;
    std::shared_ptr<NatsSubscription>
        subscription;  // of the present connection; shared with the code that ends it
  };

  void maintain();
  std::shared_ptr<NatsSubscription> begin(SubscriptionId id, const std::string& pattern) const;

  const std::string prefix_;
  std::shared_ptr<NatsLink> link_;        // with the job queue
  std::shared_ptr<Listeners> listeners_;  // with the library's callbacks
  Published<std::map<SubscriptionId, Wanted>> wanted_;
  NatsLink::MaintenanceId maintenance_;
};

}  // namespace cheetah::cluster
