// SPDX-License-Identifier: MIT
#pragma once
// Work for free workers: the prefill queue. Delivery is at least once: a job may come twice, late or
// never, and a job not acknowledged within the visibility timeout goes to another worker.
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "cluster/service.h"

namespace cheetah::cluster {

// 0 goes first. Within one priority jobs come in the order they were pushed, redelivered ones first.
inline constexpr int kNumPriorities = 4;

struct Job {
  std::string
      id;  // the same id within the dedup window is the same job: pushed again, it is not queued again
  std::string bytes;
  int priority = 1;  // 0 .. kNumPriorities - 1
};

enum class PushResult : uint8_t {
  kQueued,
  kDuplicate,    // it was there already, or has been done
  kFull,         // the queue holds all it may: do the work another way
  kTooLarge,     // for this queue
  kUnavailable,  // no answer in time: it may be queued or not
};
std::string_view name_of(PushResult result);

// One delivery of a job, to be acknowledged.
enum class DeliveryTag : uint64_t {};

struct Delivery {
  DeliveryTag tag{};
  std::string id;
  std::string bytes;
  int priority = 0;
  int64_t attempt = 1;  // over 1: a worker had it before

  bool redelivered() const { return attempt > 1; }
};

struct JobQueueConfig {
  std::string name{};  // among those of the cluster; letters and digits, may be empty
  std::chrono::milliseconds visibility{10'000};    // a job not acknowledged for so long is delivered again
  std::chrono::milliseconds max_age{120'000};      // then it is dropped, done or not
  std::chrono::milliseconds dedup_window{60'000};  // at most max_age
  int64_t max_jobs = 10'000;
  int64_t max_bytes = int64_t{1} << 30;
  int64_t max_deliveries = 5;  // then it is given up: it may be the job that kills workers
  int64_t replicas = 1;        // servers that keep each job, of a NATS cluster: 1, 3 or 5
};

// Any thread may call. Only pull() waits, and only as long as it is told.
class JobQueue {
 public:
  using PushCallback = std::function<void(PushResult)>;

  virtual ~JobQueue() = default;

  // `done` comes once, on the queue's own thread or from inside this call, within a bounded time. Short,
  // please.
  virtual void push(Job job, PushCallback done) = 0;

  // The first job by priority, waiting up to `wait` for one. nullopt: there is none, or the service is away
  // (state() tells): then it returns no earlier than 10 ms before `wait` is over, so a loop does not spin.
  virtual std::optional<Delivery> pull(std::chrono::milliseconds wait) = 0;
  // Wakes every pull() that waits now or, if none does, the next one: it returns at once. To stop a worker.
  virtual void wake() = 0;

  // None of these waits or throws; what is lost on the way ends in a redelivery.
  virtual void ack(DeliveryTag tag) = 0;     // done, or not wanted any more
  virtual void nack(DeliveryTag tag) = 0;    // another worker may have it, at once
  virtual void extend(DeliveryTag tag) = 0;  // still at it: the visibility timeout starts again

  // Jobs not taken yet, as last heard: at most a second old while a caller keeps asking. nullopt:
  // not known. Never waits.
  virtual std::optional<int64_t> depth() { return std::nullopt; }

  virtual ServiceState state() const = 0;
};

}  // namespace cheetah::cluster
