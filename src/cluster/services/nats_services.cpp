// SPDX-License-Identifier: MIT
#include "cluster/services/nats_services.h"

#include "cluster/queue/nats_bus.h"
#include "cluster/queue/nats_queue.h"

namespace cheetah::cluster {

bool nats_is_built_in() { return true; }

QueueServices connect_nats(const std::vector<ServiceHost>& hosts, const ServiceLogin& login,
    const std::string& cluster, const JobQueueConfig& config) {
  const auto link = std::make_shared<NatsLink>(hosts, login, "cheetah " + cluster);
  const std::string queue = config.name.empty() ? cluster : cluster + "-" + config.name;
  return {std::make_unique<NatsJobQueue>(link, queue, config), std::make_unique<NatsEventBus>(link, cluster)};
}

}  // namespace cheetah::cluster
