// SPDX-License-Identifier: MIT
#pragma once
// What an operator may ask of a node that takes clients, and what it answers. Belongs to the node's thread.
//
//   GET  cluster       the whole cluster as this router sees it
//   GET  trace/ID      one call's way through it
//   POST cordon        {"node"}                 nothing new; what runs goes on
//   POST uncordon      {"node"}
//   POST drain         {"node", "limit_s"}      nothing new; what runs after limit_s goes on elsewhere
//   POST role          {"node", "role"}         prefill, decode, both, or auto: the planner decides again
//   POST scale         {"pool", "replicas"}     a number, or null: the autoscaler decides again
//
// Each act takes "why", which goes into the log with the name of the key and the address. An act that would
// leave nobody to decode is refused unless "force" is true.
#include <array>
#include <string>

#include "base/json.h"
#include "cluster/node/client_adapter.h"
#include "cluster/node/node.h"
#include "cluster/node/operations.h"
#include "cluster/node/planner_seat.h"
#include "cluster/node/request_traces.h"
#include "net/admin_call.h"

namespace cheetah::cluster {

class AdminApi {
 public:
  struct Setting {
    const NodeConfig& config;
    const RouterCore& router;
    const PolicyRouting& routing;
    const ClientAdapter& clients;
    const PeerTable& peers;
    const Services& services;
    const std::array<int64_t, static_cast<size_t>(Counter::kCount)>& counters;
    const RequestTraces& traces;
    const std::optional<PlannerSeat>& seat;  // where this router may plan
    Operations& operations;
    EventLog* log = nullptr;
  };
  explicit AdminApi(const Setting& setting) : setting_(setting) {}

  AdminAnswer answer(const AdminCall& call, Time now);

 private:
  // Throw AdminRefusal.
  Json cluster(Time now) const;
  Json act(const AdminCall& call, const Json& body, Time now);
  Json cordon(const std::string& act, const Json& body, Time now);
  Json role(const Json& body, Time now);
  Json scale(const Json& body);
  std::string named(const Json& body) const;  // of a node that is there, as orders call it
  void check_rest(const std::string& node, bool stays_decoding, const Json& body, Time now) const;
  Json worker_json(const KnownWorker& worker, Time now) const;
  Json requests_json() const;
  Json orders_json() const;

  Setting setting_;
};

// "ready", "cordoned", "hung", …: what to call a worker's state in one word.
std::string_view standing_of(const KnownWorker& worker);

}  // namespace cheetah::cluster
