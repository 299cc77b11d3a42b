// SPDX-License-Identifier: MIT
#pragma once
// Closes an etcd to all but two users: root, and the one that a cluster's nodes are.
#include <string>
#include <vector>

#include "cluster/service.h"

namespace cheetah::cluster {

struct EtcdUsers {
  std::vector<ServiceHost> hosts;
  ServiceLogin login;              // of the nodes: their user and its password's file
  std::string root_password_file;  // root's, who may do everything; kept as it is where root exists
  std::string cluster;             // whose keys the nodes' user reads and writes, and no others
};

// Also where it was done before: then the nodes' user gets the password that its file holds now. Waits up to
// `patience` for an etcd that does not answer yet. Throws Error.
void set_up_etcd_users(const EtcdUsers& users, Duration patience);

}  // namespace cheetah::cluster
