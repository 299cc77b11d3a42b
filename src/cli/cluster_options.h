// SPDX-License-Identifier: MIT
#pragma once
// The settings that make a server a node of a cluster.
#include <string>

#include "cli/settings.h"
#include "cluster/node/launch.h"

namespace cheetah {

struct ClusterOptions {
  std::string role = "none";
  std::string url;
  std::string name, host = "127.0.0.1", policy_file, transfer = "auto", transfer_dtype, map_file = "auto";
  cluster::CredentialFiles credentials;
  std::string admin_key_file;  // of operators
  int port = 0;
  int picker_port = 0, picker_target_port = 8000;  // 0: no endpoint picker
  double lease_s = 0;                              // 0: what the URL says
};

void add_cluster_settings(Settings& settings, ClusterOptions& options);
bool in_cluster(const ClusterOptions& options);

cluster::PolicyConfig policy_of(const ClusterOptions& options);  // of its file, if there is one
// Reads the files that are named. Throws UsageError and Error.
cluster::LaunchOptions launch_options(const ClusterOptions& options);

}  // namespace cheetah
