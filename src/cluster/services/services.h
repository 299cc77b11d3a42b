// SPDX-License-Identifier: MIT
#pragma once
// What --cluster names: which registry, queue and event bus this process uses.
//
//   inproc:                                    all roles in this process; nothing outside it
//   peers:/etc/cheetah/peers.toml              a file that lists the peers; jobs go straight to them
//   peers:/etc/cheetah/peers.toml,nats://q1    the same, with a prefill queue
//   etcd://e1,e2:2379,e3,nats://q1:4222,q2     registry in etcd, queue and events in NATS
//   etcd+tls://cheetah@e1,nats+tls://q1?cluster=prod&ca=/etc/cheetah/ca.pem&password_file=/run/secrets/etcd
//
// A comma starts another host of the same kind, or another service when it has a scheme. Settings follow
// '?': cluster (keeps several clusters in one service apart; "default"), ca, cert, key (PEM files for TLS),
// password_file (etcd, with a user before '@'), nats_creds (a NATS credentials file), lease_s, visibility_s,
// queue_replicas (servers of a NATS cluster that keep each job: 1, 3 or 5).
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/queue/event_bus.h"
#include "cluster/queue/job_queue.h"
#include "cluster/registry/registry.h"
#include "cluster/service.h"

namespace cheetah::cluster {

struct ClusterUrl {
  enum class Kind : uint8_t { kInProcess, kPeers, kEtcd };
  Kind kind = Kind::kInProcess;
  std::string cluster = "default";
  std::string peers_file;         // kPeers
  std::vector<ServiceHost> etcd;  // kEtcd: at least one
  std::vector<ServiceHost> nats;  // may be empty: then the queue is always down, saying so
  ServiceLogin etcd_login, nats_login;
  int64_t lease_s = 10;
  int64_t visibility_s = 10;
  int64_t queue_replicas = 1;

  bool operator==(const ClusterUrl&) const = default;
};

// Throws UsageError that shows what is out of place, and a form that works.
ClusterUrl parse_cluster_url(std::string_view text);
// In the form parse_cluster_url() reads. Holds no secret.
std::string to_string(const ClusterUrl& url);

class InProcessServices;  // services/in_process_services.h: what the nodes of one process share

struct Services {
  std::unique_ptr<Registry> registry;
  std::unique_ptr<JobQueue> jobs;
  std::unique_ptr<EventBus> events;
};

// Returns at once, whether the services can be reached or not. Throws Error for files that cannot be used and
// for services this binary was built without. `queue`: jobs under one name reach those who connected with the
// same. `shared` is needed for kInProcess. `map_file`: what etcd said last, for starts while it is away.
Services connect_services(const ClusterUrl& url, std::shared_ptr<InProcessServices> shared = nullptr,
    const std::string& queue = "", const std::string& map_file = "");

}  // namespace cheetah::cluster
