// SPDX-License-Identifier: MIT
#pragma once
// The inside of a node. Everything here belongs to the node's thread unless it says otherwise.
#include <atomic>
#include <deque>
#include <future>
#include <map>
#include <optional>
#include <variant>

#include "base/published.h"
#include "cluster/node/admin_api.h"
#include "cluster/node/client_adapter.h"
#include "cluster/node/cluster_backend.h"
#include "cluster/node/node.h"
#include "cluster/node/node_loop.h"
#include "cluster/node/operations.h"
#include "cluster/node/peer_table.h"
#include "cluster/node/planner_seat.h"
#include "cluster/node/policy_watch.h"
#include "cluster/node/request_traces.h"
#include "cluster/node/sharing.h"
#include "cluster/node/worker_edge.h"
#include "engine/tags/cluster_times.h"

namespace cheetah::cluster {

// The last decisions, a line each. Written by the node's thread, read by any.
class DecisionLog {
 public:
  void add(std::string line);
  void publish();
  std::string last(int64_t count) const;

 private:
  std::deque<std::string> lines_;
  Published<std::deque<std::string>> published_;
};

struct Node::State {
  State(const NodeConfig& node_config, NodeParts node_parts);
  ~State();

  // node_start.cpp: what is called once
  void make_cores();
  void watch_registry();
  void make_operator();
  void start_mesh();
  WorkerDescriptor describe_self() const;

  // node_events.cpp: what comes in from other threads
  void on_registry(const RegistryEvent& event);
  void on_listed(const RegistryEvent& event);
  void on_message(WorkerId from, Message message);
  void take_message(WorkerId from, Message message);
  void on_link(WorkerId peer, bool up, const std::string& why);
  void on_kv_events(std::string_view bytes);
  void on_cache_changes(const std::vector<PrefixChange>& changes);
  void tell_routers(KvEvents events);

  // node.cpp
  Time run_once(Time now);
  // From another thread: returns when the condition, which this thread looks at, holds or the time is up.
  void wait_for(std::function<bool()> condition, Time until);
  void tell_waiters();
  void feed_both(const std::variant<PeerUp, PeerDown, RegistrySnapshot, RegistryPut, RegistryGone>& input);
  template <class Input>  // RouterInput or WorkerInput
  void feed(Input&& input) {
    turn.inputs.emplace_back(std::forward<Input>(input));
  }
  void process(Time now);
  void beat(Time now);
  void log_service(const char* name, const ServiceState& service, bool& is_missed, Time now) const;
  void log_policy(const PolicyWatch::Outcome& outcome);
  void publish_status();
  ClusterNumbers policy_numbers(const KnownWorkers& workers) const;
  void execute(RouterOutput& output);
  SharedClusterTimes times_of(const Emit::Summary& summary) const;
  void execute(WorkerOutput& output);
  void send(WorkerId to, const Message& message);
  std::string encode_for(WorkerId to, const Message& message) const;
  FaultAction hit(std::string_view kind, std::string_view name);
  bool injected(const WorkerOutput& output);
  bool injected(const WorkerInput& input);
  void count(const Count& counted) { counters[static_cast<size_t>(counted.counter)] += counted.by; }
  void log_decision(const LogDecision& decision);
  void record(const RecordSpan& span) const;  // node_trace.cpp
  void announce(const WorkerDescriptor& descriptor);
  void plan(Time now);                        // node_plan.cpp
  PlaceAnswer place(PlaceQuestion question);  // node_place.cpp

  NodeConfig config;
  NodeLoop loop;  // before all that posts to it
  NodeParts parts;
  WorkerDescriptor self;
  PeerTable peers;
  std::unique_ptr<RouterCore> router;
  std::unique_ptr<WorkerCore> worker;
  std::unique_ptr<WorkerEdge> edge;
  Sharing sharing;
  ClientAdapter clients;
  std::unique_ptr<ClusterBackend> backend;

  struct Turn {  // what waits to be handled, and what the cores want done
    std::deque<std::variant<RouterInput, WorkerInput>> inputs;
    std::vector<RouterOutput> router_outputs;
    std::vector<WorkerOutput> worker_outputs;
  } turn;
  std::optional<std::vector<WorkerDescriptor>> first_map;  // until the watch has told everything
  std::optional<PolicyWatch> policies;                     // with clients
  std::optional<OutsideRequests> outside;                  // with clients
  Time next_beat{};
  uint64_t next_change = 0;  // of the prefix cache
  struct {
    bool registry = false, queue = false;
    bool queue_was_up = false;
  } missed;  // and that was logged
  struct Operator {
    explicit Operator(Operations::Setting setting) : operations(std::move(setting)) {}
    Operations operations;
    std::optional<PlannerSeat> seat;  // with clients, without an engine
    RequestTraces traces;             // with clients
    std::optional<AdminApi> api;      // with clients
  };
  std::optional<Operator> op;
  std::array<int64_t, static_cast<size_t>(Counter::kCount)> counters{};
  DecisionLog decisions;
  struct Waiter {
    std::function<bool()> condition;
    std::function<void()> tell;
  };
  std::vector<Waiter> waiters;

  std::atomic<bool> drained = false;
  Published<NodeStatus> status;
  Published<std::string> description;
};

}  // namespace cheetah::cluster
