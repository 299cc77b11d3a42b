// SPDX-License-Identifier: MIT
#pragma once
// The rules of a job queue, without threads, clocks or a service: what the in-process queue and the simulated
// one do, and what the conformance tests ask of every other.
#include <array>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>

#include "cluster/queue/job_queue.h"

namespace cheetah::cluster {

class JobTable {
 public:
  explicit JobTable(JobQueueConfig config);

  PushResult push(Job job, Time now);  // throws Error for a priority that does not exist
  std::optional<Delivery> pull(Time now);
  // Tags that are not out any more (acknowledged, timed out) are ignored.
  void ack(DeliveryTag tag);
  void nack(DeliveryTag tag, Time now);
  void extend(DeliveryTag tag, Time now);
  // When a delivered job becomes visible again by itself: a waiting pull() should look then.
  std::optional<Time> next_redelivery() const;

  int64_t num_jobs() const { return static_cast<int64_t>(jobs_.size()); }
  int64_t num_in_flight() const { return static_cast<int64_t>(out_.size()); }

 private:
  using Sequence = uint64_t;  // order of the pushes

  struct Held {
    Job job;
    Time pushed;
    int64_t deliveries = 0;
    DeliveryTag tag{};  // of the delivery that is out
    Time visible_at{};  // while out
  };

  void advance(Time now);  // lapses visibility, dedup and age
  void make_ready(Sequence sequence);
  void take_back(std::unordered_map<uint64_t, Sequence>::iterator out);
  void drop(Sequence sequence);

  JobQueueConfig config_;
  std::map<Sequence, Held> jobs_;
  std::array<std::set<Sequence>, kNumPriorities> ready_;
  std::unordered_map<uint64_t, Sequence> out_;  // by tag
  std::set<std::pair<Time, Sequence>> timers_;  // of what is out
  std::unordered_map<std::string, Time> seen_;
  std::deque<std::pair<Time, std::string>> seen_order_;
  int64_t bytes_ = 0;
  Sequence next_sequence_ = 1;
  uint64_t next_tag_ = 1;
};

// Throws Error for a priority that does not exist or an id that is empty or over 256 bytes.
void check_job(const Job& job);

}  // namespace cheetah::cluster
