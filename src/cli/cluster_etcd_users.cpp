// SPDX-License-Identifier: MIT
// cheetah cluster etcd-users: closes an etcd to anyone without a password.
#include <CLI/CLI.hpp>

#include "base/error.h"
#include "base/format.h"
#include "cli/cluster.h"
#include "cli/output.h"
#include "cluster/registry/etcd_users.h"
#include "cluster/services/services.h"

namespace cheetah {
namespace {

constexpr const char* kExamples = R"(
Examples:
  cheetah cluster etcd-users --cluster 'etcd+tls://cheetah@e1?ca=ca.pem&password_file=etcd-password' --root-password-file etcd-root-password

The user before the @ may then read and write the keys of the cluster that the URL names, root everything, and nobody
else anything. Run it again to give that user the password that its file holds now.
)";

struct Options {
  std::string url, root_password_file;
  double wait_s = 60;
};

int run(const Options& options) {
  const cluster::ClusterUrl url = cluster::parse_cluster_url(options.url);
  if (url.kind != cluster::ClusterUrl::Kind::kEtcd || url.etcd_login.user.empty())
    throw UsageError(
        "--cluster: names no user of etcd: expected etcd+tls://USER@HOST?ca=FILE&password_file=FILE");
  cluster::set_up_etcd_users({.hosts = url.etcd,
                                 .login = url.etcd_login,
                                 .root_password_file = options.root_password_file,
                                 .cluster = url.cluster},
      std::chrono::milliseconds(static_cast<int64_t>(options.wait_s * 1e3)));
  print(format("etcd asks for passwords: root may do everything, {} what belongs to the cluster {}\n",
      url.etcd_login.user, url.cluster));
  return 0;
}

}  // namespace

void add_etcd_users(CLI::App& cluster, Action& action) {
  auto* command =
      cluster.add_subcommand("etcd-users", "Close an etcd to all but root and the cluster's nodes");
  auto options = std::make_shared<Options>();
  command
      ->add_option(
          "--cluster", options->url, "the cluster, with its user of etcd and the file of its password")
      ->required();
  command
      ->add_option(
          "--root-password-file", options->root_password_file, "file with the password of etcd's root")
      ->required();
  command->add_option("--wait", options->wait_s, "seconds to wait for an etcd that does not answer yet")
      ->check(CLI::Range(0.0, 3600.0))
      ->capture_default_str();
  command->footer(kExamples);
  command->callback([=, &action] { action = [=] { return run(*options); }; });
}

}  // namespace cheetah
