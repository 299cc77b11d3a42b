// SPDX-License-Identifier: MIT
#pragma once
// Clients of a simulated cluster that know every token of their answer beforehand.
#include <cstdint>
#include <map>
#include <vector>

#include "cluster/core/router_ports.h"
#include "testing/cluster/oracle.h"
#include "testing/cluster/simulation.h"

namespace cheetah::cluster::simulation {

class SimCluster;
class SimNode;

class SimClients {
 public:
  explicit SimClients(SimCluster& cluster);

  // A request of some router; `must_succeed`: no fault excuses a failure any more.
  void ask(bool must_succeed);
  void emit(WorkerId router, const Emit& emit);
  bool is_poison(RequestUid uid) const;  // it kills the worker that runs it
  void sent_in_vain(RequestUid uid);     // to a worker whose link was down already
  void router_died(WorkerId router);
  void check_orphans(WorkerId router);
  void check_at_end();

  struct Counts {
    int64_t requests = 0, completed = 0, failed = 0, cancelled = 0, orphaned = 0, came_back = 0;
  };
  const Counts& counts() const { return counts_; }

 private:
  struct Client {
    WorkerId router{};
    GenerationRequest request;
    std::vector<OracleChoice> answer;
    std::vector<size_t> got;   // on this stream: of one that goes on elsewhere the beginning comes again
    std::vector<int64_t> has;  // before it
    std::vector<bool> finished;
    bool ended = false, cancelled = false, orphaned = false, failed = false, must_succeed = false,
         poison = false;
    int64_t vain_sends = 0;
    Time asked{};
    Duration limit{};
  };
  GenerationRequest make_request();
  SimNode* any_router();
  void come_back(RequestUid uid);
  void send(SimNode& router, RequestUid uid, Client client);
  void check_event(Client& client, const Emit& emit);
  void check_finish(Client& client, const GenerationEvent& event);

  SimCluster& cluster_;
  Simulation& simulation_;
  std::map<RequestUid, Client> clients_;
  uint64_t num_asked_ = 0;
  Counts counts_;
};

}  // namespace cheetah::cluster::simulation
