// SPDX-License-Identifier: MIT
#include "cluster/services/services.h"

#include <algorithm>

#include "base/error.h"
#include "cluster/queue/absent.h"
#include "cluster/registry/etcd_registry.h"
#include "cluster/registry/peer_file.h"
#include "cluster/services/in_process_services.h"
#include "cluster/services/nats_services.h"

namespace cheetah::cluster {
namespace {

JobQueueConfig queue_config(const ClusterUrl& url, const std::string& name) {
  JobQueueConfig config;
  config.name = name;
  config.visibility = std::chrono::seconds(url.visibility_s);
  config.replicas = url.queue_replicas;
  config.max_age = std::max(config.max_age, 4 * config.visibility);
  return config;
}

std::unique_ptr<Registry> connect_registry(const ClusterUrl& url, const std::string& map_file) {
  if (url.kind == ClusterUrl::Kind::kPeers) return std::make_unique<PeerFileRegistry>(url.peers_file);
  EtcdConfig config;
  config.hosts = url.etcd;
  config.login = url.etcd_login;
  config.cluster = url.cluster;
  config.lease_s = url.lease_s;
  config.map_file = map_file;
  return std::make_unique<EtcdRegistry>(config);
}

}  // namespace

Services connect_services(const ClusterUrl& url, std::shared_ptr<InProcessServices> shared,
    const std::string& queue, const std::string& map_file) {
  if (url.kind == ClusterUrl::Kind::kInProcess) {
    CHEETAH_ASSERT(shared != nullptr, "the nodes of one process share their services");
    return {std::make_unique<InProcessRegistry>(shared->registry),
        std::make_unique<InProcessJobQueue>(shared->jobs_of(queue)),
        std::make_unique<InProcessEventBus>(shared->events)};
  }
  std::unique_ptr<Registry> registry = connect_registry(url, map_file);
  if (url.nats.empty()) {
    const char* why = "there is no nats:// in the cluster's URL";
    return {
        std::move(registry), std::make_unique<AbsentJobQueue>(why), std::make_unique<AbsentEventBus>(why)};
  }
  QueueServices nats = connect_nats(url.nats, url.nats_login, url.cluster, queue_config(url, queue));
  return {std::move(registry), std::move(nats.jobs), std::move(nats.events)};
}

}  // namespace cheetah::cluster
