#pragma once
// A whole cluster in one thread on a simulated clock: processes, the network between them, registry, queue,
// memory that is written from afar, clients, and everything that can go wrong with them, drawn from one seed.
// In a first phase faults come; then everything heals, and every promise is checked.
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cluster/core/simulation/sim_node.h"
#include "cluster/core/simulation/sim_queue.h"
#include "cluster/core/simulation/world.h"

namespace cheetah::cluster::simulation {

// How often something goes wrong with one message, job or write, while faults are on.
struct FaultRates {
  double drop = 0, twice = 0, late = 0;
  double lose_job = 0, double_job = 0, late_job = 0;
  double stall = 0, damage = 0;
  double engine = 0;
};

// Bugs put in on purpose, to show that they are found.
struct Planted {
  RouterCore::PlantedBugs router{};
  WorkerCore::PlantedBugs worker{};
  bool any = false;
};

struct Verdict {
  std::vector<std::string> violations;
  std::string log;
  int64_t faults = 0, requests = 0, completed = 0, failed = 0, cancelled = 0, orphaned = 0;
  std::map<std::string, int64_t> fault_kinds;
  std::array<int64_t, static_cast<size_t>(Counter::kCount)> counters{};
  uint64_t steps = 0;
};

class SimCluster {
 public:
  SimCluster(uint64_t seed, bool keep_log, const Planted& planted = {});
  ~SimCluster();
  Verdict run();

  // For its parts:
  World& world() { return world_; }
  const FaultRates& rates() const { return rates_; }
  const Planted& planted() const { return planted_; }
  bool fault(double probability, const char* what);  // true: it happens, and is counted
  const std::map<WorkerId, std::unique_ptr<SimNode>>& nodes() const { return nodes_; }
  SimNode* find(WorkerId id);
  // Runs at the process if it still lives; later if it is stopped.
  void on(WorkerId id, Duration delay, std::function<void()> what);
  void send(WorkerId from, WorkerId to, const Message& message);
  void announce(const WorkerDescriptor& descriptor);
  void emit(WorkerId router, const Emit& emit);
  void count(Counter counter) { ++verdict_.counters[static_cast<size_t>(counter)]; }
  SimQueue& queue() { return queue_; }
  void request_submitted(SimNode& node, const EngineSubmit& submit);
  std::optional<Time> death_of(WorkerId id) const;
  bool uses_policies() const { return uses_policies_; }
  void may_crash(SimNode& node);  // between two of its outputs

 private:
  struct Link {
    bool up = false, wanted = true;
    uint64_t life = 0;
    Time told{};                    // when both ends know that it is down
    bool deaf[2] = {false, false};  // one way is cut without anybody being told
    Time last[2] = {};
  };
  struct Client {
    WorkerId router{};
    GenerationRequest request;
    std::vector<OracleChoice> answer;
    std::vector<size_t> got;
    std::vector<bool> finished;
    bool ended = false, cancelled = false, orphaned = false, failed = false, must_succeed = false,
         poison = false;
    Time asked{};
    Duration limit{};
  };

  // sim_cluster.cpp
  void build();
  SimNode& start(const NodeSpec& spec);
  void kill(WorkerId id);
  void restart_later(const NodeSpec& spec, Duration delay);
  void check_at_end();

  // sim_network.cpp
  Link& link(WorkerId a, WorkerId b);
  void link_up(WorkerId a, WorkerId b);
  void link_down(WorkerId a, WorkerId b);
  void link_later(WorkerId a, WorkerId b, Duration delay);
  void deliver(WorkerId from, WorkerId to, const Message& message, Duration delay);
  void registry_tell(const std::function<void(SimNode&)>& what);

  // sim_clients.cpp
  void ask(bool must_succeed);
  GenerationRequest make_request();
  void check_event(Client& client, const Emit& emit);
  void check_finish(Client& client, const GenerationEvent& event);
  void check_clients();
  void check_orphans(WorkerId router);

  // sim_faults.cpp
  void draw_rates();
  void plan_faults();
  void inject();
  void heal();
  void injected(const char* what);
  SimNode* any_node(bool workers_only);

  World world_;
  Planted planted_;
  Verdict verdict_;
  FaultRates rates_;
  bool faults_on_ = true, through_codec_ = false, decode_centric_ = false, uses_policies_ = false;
  std::map<WorkerId, std::unique_ptr<SimNode>> nodes_;
  std::map<WorkerId, Time> deaths_;
  std::vector<std::unique_ptr<SimNode>> graveyard_;
  std::map<std::pair<WorkerId, WorkerId>, Link> links_;
  std::map<WorkerId, WorkerDescriptor> registry_;
  bool registry_up_ = true;
  SimQueue queue_;
  std::map<RequestUid, Client> clients_;
  std::vector<NodeSpec> to_restart_;
  uint64_t num_asked_ = 0;
  std::string crashes_;  // a process of this name, after so many outputs
  int64_t crashes_after_ = -1;
  Duration slack_{};  // clocks and processes that jumped or stood still may be off by so much
};

}  // namespace cheetah::cluster::simulation
