// SPDX-License-Identifier: MIT
#pragma once
// For tests: a job queue and an event bus of each kind, with the hand that breaks them.
#include <memory>

#include "cluster/queue/event_bus.h"
#include "cluster/queue/job_queue.h"
#include "cluster/services/service_fixture.h"

namespace cheetah::cluster {

// One queue and one bus, empty at first. A node is one process that uses them.
class QueueBackend {
 public:
  virtual ~QueueBackend() = default;
  virtual std::unique_ptr<JobQueue> join_queue() = 0;
  virtual std::unique_ptr<EventBus> join_bus() = 0;
  virtual void stop_service() = 0;  // kill -9
  virtual void start_service() = 0;
};

struct QueueKind {
  const char* name;
  std::unique_ptr<QueueBackend> (*make)(JobQueueConfig);  // nullptr from it: the service is not installed
};

std::unique_ptr<QueueBackend> in_process_queue_backend(JobQueueConfig config);
std::unique_ptr<QueueBackend> nats_queue_backend(JobQueueConfig config);

// One server for all tests of this program.
ServiceProcess& shared_nats();

}  // namespace cheetah::cluster
