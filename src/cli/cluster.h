// SPDX-License-Identifier: MIT
#pragma once
// What `cheetah cluster` does: the ways to start a whole cluster on one machine, and its other commands.
#include <string>

#include "cli/command.h"
#include "cluster/net/credentials.h"

namespace cheetah {

struct UpOptions {
  std::string model;
  int num_prefill = 1, num_decode = 1;
  std::string also;  // a second model, with workers of its own that do both
  int num_also = 1;
  int port = 8000;
  std::string url, policy_file, admin_key_file, folder;
  cluster::CredentialFiles credentials;  // none: a new secret
  int threads = 0;                       // 0: the cores, shared out
  bool in_process = false;
  std::string log_max_size = "64MiB";  // of each node's file
  int log_keep = 4;
  std::string more;  // flags for every node, blanks between
  std::string more_prefill, more_decode;
};

int run_up(const UpOptions& options);
int run_in_process(const UpOptions& options);
int threads_each(const UpOptions& options);
int num_workers(const UpOptions& options);

void add_etcd_users(CLI::App& cluster, Action& action);

}  // namespace cheetah
