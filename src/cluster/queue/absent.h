// SPDX-License-Identifier: MIT
#pragma once
// A queue and a bus for a cluster that has none: always down, and saying why. Jobs then go straight to a
// prefill worker, and KV events over the direct links.
#include <string>
#include <thread>

#include "cluster/queue/event_bus.h"
#include "cluster/queue/job_queue.h"
#include "cluster/queue/wake_up.h"

namespace cheetah::cluster {

class AbsentJobQueue final : public JobQueue {
 public:
  explicit AbsentJobQueue(std::string why)
      : state_{false, std::chrono::steady_clock::now(), std::move(why), true} {}

  void push(Job, PushCallback done) override { done(PushResult::kUnavailable); }
  std::optional<Delivery> pull(std::chrono::milliseconds wait) override {
    const Time deadline = std::chrono::steady_clock::now() + wait;
    while (std::chrono::steady_clock::now() < deadline)
      if (wake_up_.wait_until(deadline)) break;
    return std::nullopt;
  }
  void wake() override { wake_up_.ring_by_hand(); }
  void ack(DeliveryTag) override {}
  void nack(DeliveryTag) override {}
  void extend(DeliveryTag) override {}
  ServiceState state() const override { return state_; }

 private:
  const ServiceState state_;
  WakeUp wake_up_;
};

class AbsentEventBus final : public EventBus {
 public:
  explicit AbsentEventBus(std::string why)
      : state_{false, std::chrono::steady_clock::now(), std::move(why), true} {}

  bool publish(std::string_view subject, std::string_view) override {
    check_subject(subject);
    return false;
  }
  SubscriptionId subscribe(std::string_view pattern, Callback) override {
    check_pattern(pattern);
    return SubscriptionId(0);
  }
  void unsubscribe(SubscriptionId) override {}
  ServiceState state() const override { return state_; }
  int64_t num_dropped() const override { return 0; }

 private:
  const ServiceState state_;
};

}  // namespace cheetah::cluster
