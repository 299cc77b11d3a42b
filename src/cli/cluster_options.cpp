// SPDX-License-Identifier: MIT
#include "cli/cluster_options.h"

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "base/format.h"
#include "base/hash.h"
#include "cli/engine_options.h"
#include "cluster/net/credentials.h"

namespace cheetah {

void add_cluster_settings(Settings& s, ClusterOptions& o) {
  s.add_choice("role", o.role, {"none", "router", "prefill", "decode", "both"},
      "part in a cluster; with --port a decode worker takes clients itself");
  s.add_text("cluster", o.url,
      "the cluster: peers:FILE, or etcd://HOST[,HOST...][,nats://HOST...][?cluster=NAME&...]");
  s.add_text("node-name", o.name, "name of this node");
  s.add_text("cluster-host", o.host,
      "address for the cluster's peers; beyond this machine with --secret-file or --cluster-cert");
  s.add_int("cluster-port", o.port, 0, 65535, "port for the cluster's peers; 0 picks a free one");
  s.add_text("secret-file", o.credentials.secret, "file with the secret that all nodes of the cluster share");
  s.add_text("cluster-cert", o.credentials.certificate,
      "instead of the secret: PEM file with this node's certificate");
  s.add_text("cluster-key", o.credentials.key, "PEM file with the key of --cluster-cert");
  s.add_text(
      "cluster-ca", o.credentials.authorities, "PEM file with the authority of all nodes' certificates");
  s.add_text("admin-key-file", o.admin_key_file,
      "file with the keys of operators, one per line: [NAME] KEY; cheetah cluster cordon and others send one");
  s.add_int("endpoint-picker-port", o.picker_port, 0, 65535,
      "port at which gateways ask which worker a request should go to (Gateway API inference extension, ext_proc over gRPC); 0: none");
  s.add_int("endpoint-picker-target-port", o.picker_target_port, 1, 65535,
      "port at which every decode worker takes requests itself, as the InferencePool names it");
  s.add_text("policy-file", o.policy_file, "TOML file with the policies of routing, admission and scaling");
  s.add_choice("transfer", o.transfer, {"auto", "shm", "tcp", "ucx"},
      "how pages move between workers: shm (one machine), tcp (sealed), ucx (sealed; for RDMA networks); auto: shm or tcp");
  s.add_text("transfer-dtype", o.transfer_dtype,
      "type in which pages come to this worker: f32, bf16, f16, fp8, int8 (default: the narrower of "
      "both workers' caches)");
  s.add_text("cluster-map", o.map_file,
      "file that keeps what etcd said last, for a start while etcd is down; none keeps nothing; auto: "
      "$XDG_CACHE_HOME/cheetah/cluster-HASH.json");
  s.add_seconds("lease-ttl", o.lease_s, 0, 3600,
      "how long a silent node stays in the registry (default: the registry's)");
}

namespace {

// Of each cluster's own: services are told apart by their URL.
std::string map_file_of(const ClusterOptions& options, const cluster::ClusterUrl& url) {
  if (options.map_file == "none" || url.kind != cluster::ClusterUrl::Kind::kEtcd) return "";
  if (options.map_file != "auto") return options.map_file;
  const char *cache = std::getenv("XDG_CACHE_HOME"), *home = std::getenv("HOME");
  std::string folder = cache && *cache ? cache : home && *home ? std::string(home) + "/.cache" : "";
  return folder.empty() ? ""
                        : format("{}/cheetah/cluster-{:016x}.json", folder, fnv1a(cluster::to_string(url)));
}

}  // namespace

bool in_cluster(const ClusterOptions& options) { return options.role != "none" || !options.url.empty(); }

cluster::LaunchOptions launch_options(const ClusterOptions& options) {
  if (options.url.empty()) throw UsageError("--role needs --cluster, e.g. --cluster peers:peers.txt");
  cluster::LaunchOptions launch;
  launch.role = options.role == "none" ? cluster::Role::kBoth : cluster::role_from_name(options.role);
  launch.name = options.name;
  launch.cluster = cluster::parse_cluster_url(options.url);
  if (launch.cluster.kind == cluster::ClusterUrl::Kind::kInProcess)
    throw UsageError("--cluster inproc: is for one process; use cheetah cluster up --in-process");
  if (options.lease_s > 0) launch.cluster.lease_s = static_cast<int64_t>(options.lease_s + 0.5);
  launch.host = options.host;
  launch.port = static_cast<uint16_t>(options.port);
  launch.transfer = options.transfer;
  if (!options.transfer_dtype.empty()) {
    launch.transfer_dtype = cache_type_from_name(options.transfer_dtype);
    if (!launch.transfer_dtype)
      throw UsageError(format("--transfer-dtype: '{}' is not one of f32, bf16, f16, fp8, int8",
          printable(options.transfer_dtype)));
  }
  launch.credentials = cluster::read_credentials(options.credentials);
  launch.policy = policy_of(options);
  launch.policy_file = options.policy_file;
  launch.map_file = map_file_of(options, launch.cluster);
  return launch;
}

cluster::PolicyConfig policy_of(const ClusterOptions& options) {
  if (options.policy_file.empty()) return {};
  std::ifstream file(options.policy_file, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  if (!file)
    throw UsageError(format("--policy-file {}: cannot be read", printable(options.policy_file, 256)));
  return cluster::parse_policy_config(text.str(), options.policy_file);
}

}  // namespace cheetah
