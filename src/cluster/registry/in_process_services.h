#pragma once
// What the nodes of one process share: registry, queue and event bus, without a service outside.
#include <memory>

#include "cluster/queue/in_process_bus.h"
#include "cluster/queue/in_process_queue.h"
#include "cluster/registry/in_process_registry.h"

namespace cheetah::cluster {

class InProcessServices {
 public:
  explicit InProcessServices(JobQueueConfig jobs_config = {}, Duration lease = std::chrono::seconds(10))
      : registry(std::make_shared<RegistryStore>(lease)),
        jobs(std::make_shared<JobStore>(jobs_config)),
        events(std::make_shared<EventStore>()) {}

  // Each is owned by this and by every node that uses it.
  const std::shared_ptr<RegistryStore> registry;
  const std::shared_ptr<JobStore> jobs;
  const std::shared_ptr<EventStore> events;
};

}  // namespace cheetah::cluster
