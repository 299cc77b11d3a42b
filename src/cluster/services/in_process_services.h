// SPDX-License-Identifier: MIT
#pragma once
// What the nodes of one process share: registry, queue and event bus, without a service outside.
#include <map>
#include <memory>
#include <string>

#include "cluster/queue/in_process_bus.h"
#include "cluster/queue/in_process_queue.h"
#include "cluster/registry/in_process_registry.h"

namespace cheetah::cluster {

class InProcessServices {
 public:
  explicit InProcessServices(JobQueueConfig jobs_config = {}, Duration lease = std::chrono::seconds(10))
      : registry(std::make_shared<RegistryStore>(lease)),
        jobs(std::make_shared<JobStore>(jobs_config)),
        events(std::make_shared<EventStore>()),
        config_(jobs_config) {}

  // The queue of that name; "" is `jobs`. Nodes are made by one thread.
  std::shared_ptr<JobStore> jobs_of(const std::string& queue) {
    if (queue.empty()) return jobs;
    auto& store = queues_[queue];
    if (!store) store = std::make_shared<JobStore>(config_);
    return store;
  }

  // Each is owned by this and by every node that uses it.
  const std::shared_ptr<RegistryStore> registry;
  const std::shared_ptr<JobStore> jobs;
  const std::shared_ptr<EventStore> events;

 private:
  JobQueueConfig config_;
  std::map<std::string, std::shared_ptr<JobStore>> queues_;
};

}  // namespace cheetah::cluster
