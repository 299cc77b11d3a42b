// SPDX-License-Identifier: MIT
#pragma once
// Puts a node together from what a person asked for.
#include <memory>
#include <optional>
#include <string>

#include "cluster/net/credentials.h"
#include "cluster/net/local_mesh.h"
#include "cluster/node/node.h"
#include "cluster/policy/policy_config.h"
#include "cluster/services/in_process_services.h"

namespace cheetah::cluster {

struct LaunchOptions {
  Role role = Role::kBoth;
  bool takes_clients = false;  // a router always does
  std::string name;            // "": role and id
  ClusterUrl cluster;
  std::string host = "127.0.0.1";  // where peers reach it
  uint16_t port = 0;
  Credentials credentials;
  PolicyConfig policy;
  std::string policy_file;              // where it came from: read again when it changes
  std::string transfer = "auto";        // or a backend's name
  std::optional<DType> transfer_dtype;  // in which pages come; nullopt: the narrower of both workers'
  int64_t receive_bytes = int64_t{64} << 20;
  WorkerConfig worker = {};
  RouterConfig router = {};
  std::string map_file;       // of the last known map, for a start while etcd is away; may be empty
  WireVersions wire = kWire;  // others in tests, where a node plays the release before or the next one
};

struct LaunchParts {
  std::shared_ptr<const Model> model;  // shared with the server
  GrammarCache& grammars;
  EventLog* log = nullptr;
  TraceExporter* traces = nullptr;
  Failpoints* failpoints = nullptr;           // for tests
  EngineHooks engine_hooks{};                 // of the worker's engine
  std::string model_name = {};                // as clients call it; "": its own
  std::vector<ServedModel> more_models = {};  // of other workers, that clients of this node may ask for
};

// What the nodes of one process share.
struct InProcessCluster {
  LocalNetwork network;
  std::shared_ptr<InProcessServices> services = std::make_shared<InProcessServices>();
  std::shared_ptr<InProcessFabric> fabric = make_in_process_fabric();
};

// `engine`: resolved, for a worker; for a router the limits that clients are told. `together` is needed for a
// cluster within one process. Throws Error for what cannot be had.
std::unique_ptr<Node> launch_node(const LaunchOptions& options, const LaunchParts& parts,
    const EngineConfig& engine, InProcessCluster* together = nullptr);

// Tells models apart, in whatever type their weights are held: shape and a sample of the weights.
std::string model_id(const Model& model);
// The same and the type: tells apart whose pages must not be mixed.
std::string model_digest(const Model& model);
Role role_from_name(const std::string& name);  // throws UsageError
std::string_view name_of(Role role);
std::string_view name_of(WorkerState state);
// In one word: how far an operator's order to take nothing new is, or the worker's own state.
std::string_view standing_of(Cordon cordon, WorkerState state);

}  // namespace cheetah::cluster
