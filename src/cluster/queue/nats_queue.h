// SPDX-License-Identifier: MIT
#pragma once
// The prefill queue in NATS JetStream: one stream, one subject and one consumer for each priority.
#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <string>

#include "base/published.h"
#include "cluster/queue/job_queue.h"
#include "cluster/queue/nats_link.h"
#include "cluster/queue/wake_up.h"

namespace cheetah::cluster {

// Pushing waits for nothing: the server's answers come on a subject of our own. Pulling asks each priority in
// turn, then sleeps until a pusher rings and asks those it rang for; a ring that is lost costs a quarter of a
// second. A pusher rings twice: at once, which mostly finds the job stored, and when the server has said so.
class NatsJobQueue final : public JobQueue {
 public:
  NatsJobQueue(std::shared_ptr<NatsLink> link, const std::string& cluster, JobQueueConfig config);
  ~NatsJobQueue() override;

  void push(Job job, PushCallback done) override;
  std::optional<Delivery> pull(std::chrono::milliseconds wait) override;
  void wake() override { inbound_->wake_up.ring_by_hand(); }
  void ack(DeliveryTag tag) override;
  void nack(DeliveryTag tag) override;
  void extend(DeliveryTag tag) override;
  std::optional<int64_t> depth() override;
  ServiceState state() const override;

 private:
  struct Pending {
    PushCallback done;
    Time deadline{};
  };
  // What the library's threads touch. They may hold it a little longer than the queue lives.
  struct Inbound {
    Published<std::map<uint64_t, Pending>> pushes;
    WakeUp wake_up;
    std::atomic<uint32_t> rung{0};  // priorities, as bits

    void answer(uint64_t number, PushResult result);
  };
  struct Out {
    std::string ack_subject;
    Time pulled{};
  };
  struct Standing {
    ServiceState state;
    int64_t generation = 0;  // of the link, when the stream was last made sure of; 0: never
  };
  struct Pulled {
    std::optional<Delivery> delivery;
    bool answered = false;  // false: the server said nothing, so do not ask on
  };
  struct Depth {
    std::optional<int64_t> jobs;
    Time heard{}, asked{};
  };
  struct Subscriptions;

  void maintain();
  void make_stream();
  void measure_depth(Time now);
  void listen();
  void expire(Time now);
  bool is_ready() const;
  Pulled pull_first(uint32_t priorities);
  Pulled pull_one(int priority);
  bool say(const std::string& subject, std::string_view words);
  std::optional<std::string> take_out(DeliveryTag tag, bool keep);
  std::string subject_of(int priority) const;
  std::string consumer_of(int priority) const;

  const JobQueueConfig config_;
  const std::string stream_, subjects_, wake_subject_, inbox_;
  std::shared_ptr<NatsLink> link_;    // with the event bus
  std::shared_ptr<Inbound> inbound_;  // with the library's callbacks
  std::atomic<uint64_t> next_push_{1}, next_tag_{1};
  std::atomic<bool> look_again_{false};  // the stream may be gone
  std::array<std::atomic<Time::rep>, kNumPriorities> silent_until_{};
  mutable Published<Standing> standing_;
  Published<std::map<DeliveryTag, Out>> out_;
  Published<Depth> depth_;
  std::unique_ptr<Subscriptions> subscriptions_;  // of the link's thread
  NatsLink::MaintenanceId maintenance_;
};

}  // namespace cheetah::cluster
