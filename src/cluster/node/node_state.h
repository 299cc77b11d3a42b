#pragma once
// The inside of a node. Everything here belongs to the node's thread unless it says otherwise.
#include <atomic>
#include <deque>
#include <map>
#include <optional>
#include <variant>

#include "base/published.h"
#include "cluster/node/client_desk.h"
#include "cluster/node/cluster_backend.h"
#include "cluster/node/node.h"
#include "cluster/node/node_loop.h"
#include "cluster/node/peer_book.h"
#include "cluster/node/policy_watch.h"
#include "cluster/node/worker_edge.h"

namespace cheetah::cluster {

struct Node::State {
  State(const NodeConfig& node_config, NodeParts node_parts);
  ~State();

  // node_start.cpp: what is called once
  void make_cores();
  void watch_registry();
  void start_mesh();
  WorkerDescriptor describe_self() const;

  // node_events.cpp: what comes in from other threads
  void on_registry(const RegistryEvent& event);
  void on_message(WorkerId from, Message message);
  void take_message(WorkerId from, Message message);
  void on_link(WorkerId peer, bool up, const std::string& why);
  void on_kv_events(std::string_view bytes);
  void on_cache_changes(const std::vector<PrefixChange>& changes);
  void tell_routers(KvEvents events);

  // node.cpp
  Time turn(Time now);
  void feed_both(const std::variant<PeerUp, PeerDown, RegistrySnapshot, RegistryPut, RegistryGone>& input);
  void feed(RouterInput input) { inputs.emplace_back(std::move(input)); }
  void feed(WorkerInput input) { inputs.emplace_back(std::move(input)); }
  void process(Time now);
  void beat(Time now);
  void log_service(const char* name, const ServiceState& service, bool& is_missed, Time now) const;
  void log_policy(const PolicyWatch::Outcome& outcome);
  void publish_status();
  ClusterNumbers policy_numbers(const KnownWorkers& workers) const;
  void execute(RouterOutput& output);
  std::shared_ptr<const ClusterTimes> times_of(const Emit::Summary& summary) const;
  void execute(WorkerOutput& output);
  void send(WorkerId to, const Message& message);
  Strike hit(std::string_view kind, std::string_view name);
  bool struck(const WorkerOutput& output);
  bool struck(const WorkerInput& input);
  void count(const Count& counted) { counters[static_cast<size_t>(counted.counter)] += counted.by; }
  void log_decision(const LogDecision& decision);
  void record(const RecordSpan& span) const;  // node_trace.cpp
  void announce(const WorkerDescriptor& descriptor);
  void plan(Time now);  // node_plan.cpp
  bool has_clients() const { return router != nullptr; }

  NodeConfig config;
  NodeLoop loop;  // before all that posts to it
  NodeParts parts;
  WorkerDescriptor self;
  PeerBook peers;
  std::unique_ptr<RouterCore> router;
  std::unique_ptr<WorkerCore> worker;
  std::unique_ptr<WorkerEdge> edge;
  ClientDesk desk;
  std::unique_ptr<ClusterBackend> backend;

  std::deque<std::variant<RouterInput, WorkerInput>> inputs;
  std::vector<RouterOutput> router_outputs;
  std::vector<WorkerOutput> worker_outputs;
  std::optional<std::vector<WorkerDescriptor>> first_map;  // until the watch has told everything
  std::optional<PolicyWatch> policies;                     // with clients
  Time next_beat{};
  uint64_t next_change = 0;                                  // of the prefix cache
  bool registry_is_missed = false, queue_is_missed = false;  // and that was logged
  bool queue_was_up = false;
  std::array<int64_t, static_cast<size_t>(Counter::kCount)> counters{};
  std::deque<std::string> decisions;  // the last ones, a line each

  std::atomic<bool> drained = false;
  Published<NodeStatus> status;
  Published<std::string> description;
  Published<std::deque<std::string>> last_decisions;
};

}  // namespace cheetah::cluster
