// SPDX-License-Identifier: MIT
// Stands for nats_services.cpp where the NATS library was not found.
#include "base/error.h"
#include "cluster/services/nats_services.h"

namespace cheetah::cluster {

bool nats_is_built_in() { return false; }

QueueServices connect_nats(
    const std::vector<ServiceHost>&, const ServiceLogin&, const std::string&, const JobQueueConfig&) {
  throw Error("nats://: this binary was built without the NATS library: install libnats-dev and build again");
}

}  // namespace cheetah::cluster
