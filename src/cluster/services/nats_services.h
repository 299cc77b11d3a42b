// SPDX-License-Identifier: MIT
#pragma once
// The job queue and the event bus in NATS, over one connection.
#include <memory>
#include <string>
#include <vector>

#include "cluster/services/services.h"

namespace cheetah::cluster {

struct QueueServices {
  std::unique_ptr<JobQueue> jobs;
  std::unique_ptr<EventBus> events;
};

bool nats_is_built_in();

// Returns at once, whether NATS can be reached or not. Throws Error where this binary was built without it or
// the files of `login` cannot be used.
QueueServices connect_nats(const std::vector<ServiceHost>& hosts, const ServiceLogin& login,
    const std::string& cluster, const JobQueueConfig& config);

}  // namespace cheetah::cluster
