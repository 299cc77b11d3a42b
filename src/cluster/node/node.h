// SPDX-License-Identifier: MIT
#pragma once
// One process of a cluster, or one of several in a process: a worker with an engine, a router with clients,
// or both. One thread owns the cores and does what they ask for on the engine, the links, the registry, the
// queue and the transfers; everything else only posts to it.
#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cluster/core/router_core.h"
#include "cluster/core/worker_core.h"
#include "cluster/net/mesh.h"
#include "cluster/node/cluster_backend.h"
#include "cluster/node/failpoints.h"
#include "cluster/node/kv_adapter.h"
#include "cluster/node/outside_requests.h"
#include "cluster/policy/policy_routing.h"
#include "cluster/services/services.h"
#include "cluster/transfer/transfer.h"
#include "engine/engine.h"
#include "net/admin_call.h"

namespace cheetah {
class EventLog;       // serve/event_log.h
class GrammarCache;   // engine/grammar/grammar_cache.h
class TraceExporter;  // observe/trace_exporter.h
}  // namespace cheetah

namespace cheetah::cluster {

struct NodeConfig {
  WorkerId id{};
  std::string name;
  Role role = Role::kBoth;
  std::string model;        // digest of the weights as they are held: pages move between equal ones
  RouterConfig router;      // with clients; `self` and `prefer_self` are set from the rest
  WorkerConfig worker;      // with an engine; its descriptor is made from the rest
  std::string policy_file;  // with clients: read again when it changes; may be empty
  WireVersions wire = kWire;
  Duration heartbeat = std::chrono::milliseconds(200);
};

// What a node is built on. Without an engine it is a router; without routing it takes no clients.
struct NodeParts {
  std::vector<ServedModel> models;   // the first is the engine's; further ones only with clients
  GrammarCache* grammars = nullptr;  // of the engine's model; outlives the node
  EventLog* log = nullptr;           // outlives the node
  TraceExporter* traces = nullptr;   // outlives the node
  std::unique_ptr<Mesh> mesh;
  Services services;
  std::unique_ptr<Engine> engine;
  std::unique_ptr<TransferAgent> transfer;
  std::unique_ptr<PolicyRouting> routing;
  Failpoints* failpoints = nullptr;  // for tests; outlives the node
};

// A copy of a node's numbers, at most a heartbeat old.
struct NodeStatus {
  WorkerDescriptor self;
  KnownWorkers workers;  // with clients: as the router sees them
  std::array<int64_t, static_cast<size_t>(Counter::kCount)> counters{};
  WorkerCore::Outstanding outstanding;
  int64_t requests = 0;  // of clients
  int64_t links = 0;
  KvAdapter::Numbers pages;
  ClusterNumbers policy;  // with clients
  std::string worth;      // whether prefilling elsewhere pays, by prompt length
  ServiceState registry, queue;

  int64_t num_decoders() const;  // workers that take requests now
};

std::string status_json(const NodeStatus& status);  // for a router's page

class Node {
 public:
  Node(const NodeConfig& config, NodeParts parts);
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  // For a server, as long as the node lives: the cluster, or, where it takes no clients, only its engine's
  // numbers.
  GenerationBackend& backend();
  std::string metrics() const;  // of the cluster, as Prometheus text
  // What an operator asks a node with clients (admin_api.h). Any thread; `done` is called on the node's.
  void admin(AdminCall call, std::function<void(AdminAnswer)> done);
  // Of the worker: nothing new; returns when all is done or handed over, or the time is up. True: all was.
  bool drain(std::chrono::milliseconds limit);
  NodeStatus status() const;
  std::string describe() const;  // the cores' own words, many lines
  WorkerId id() const;
  // With clients: where a gateway should send a request that does not come through this node. Every answer with a uid
  // is followed by one placed_ended(). From any thread; `tell` runs on the node's.
  void place(PlaceQuestion question, std::function<void(PlaceAnswer)> tell);
  void placed_ended(const PlacedEnd& end);
  void when_ready(std::function<void()> tell);  // called once, on the node's thread
  // True once `count` decode workers can be reached; false when the time is up.
  bool wait_for_workers(int64_t count, std::chrono::milliseconds limit) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

WorkerId random_worker_id(const Identity* identity = nullptr);

}  // namespace cheetah::cluster
