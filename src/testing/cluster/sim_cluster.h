// SPDX-License-Identifier: MIT
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

#include "testing/cluster/planted_bug.h"
#include "testing/cluster/sim_clients.h"
#include "testing/cluster/sim_network.h"
#include "testing/cluster/sim_node.h"
#include "testing/cluster/sim_queue.h"
#include "testing/cluster/simulation.h"

namespace cheetah::cluster::simulation {

// How often something goes wrong with one message, job or write, while faults are on.
struct FaultRates {
  double drop = 0, twice = 0, late = 0;
  double lose_job = 0, double_job = 0, late_job = 0;
  double stall = 0, damage = 0;
  double engine = 0;
};

struct Verdict {
  std::vector<std::string> violations;
  std::string log;
  SimClients::Counts clients;
  int64_t faults = 0;
  std::map<std::string, int64_t> fault_kinds;
  std::array<int64_t, static_cast<size_t>(Counter::kCount)> counters{};
  uint64_t steps = 0;
};

// Each run has some of them, so that each is also seen without the others.
FaultRates draw_rates(Simulation& simulation);

class SimCluster {
 public:
  SimCluster(uint64_t seed, bool keep_log, PlantedBug bug = PlantedBug::kNone);
  ~SimCluster();
  Verdict run();

  // For its parts:
  Simulation& simulation() { return simulation_; }
  const FaultRates& rates() const { return rates_; }
  PlantedBug bug() const { return bug_; }
  bool fault(double probability, const char* what);  // true: it happens, and is counted
  const std::map<WorkerId, std::unique_ptr<SimNode>>& nodes() const { return nodes_; }
  SimNode* find(WorkerId id);
  // Runs at the process if it still lives; later if it is stopped.
  void on(WorkerId id, Duration delay, std::function<void()> what);
  void announce(const WorkerDescriptor& descriptor);
  void count(Counter counter) { ++verdict_.counters[static_cast<size_t>(counter)]; }
  SimQueue& queue() { return queue_; }
  SimNetwork& network() { return network_; }
  SimClients& clients() { return clients_; }
  Duration slack() const { return slack_; }
  void request_submitted(SimNode& node, const EngineSubmit& submit);
  std::optional<Time> death_of(WorkerId id) const;
  bool uses_policies() const { return uses_policies_; }
  bool mixes_releases() const { return releases_ != Releases::kOne; }
  void may_crash(SimNode& node);  // between two of its outputs

 private:
  void build();
  SimNode& start(const NodeSpec& wanted);
  void kill(WorkerId id);
  void restart_later(const NodeSpec& spec, Duration delay);
  void check_at_end();
  void registry_tell(const std::function<void(SimNode&)>& what);

  void plan_faults();
  void inject();
  void stop_host();
  void kill_router();
  void heal();
  void injected(const char* what);
  SimNode* any_node(bool workers_only);

  Simulation simulation_;
  PlantedBug bug_;
  Verdict verdict_;
  FaultRates rates_;
  enum class Releases : uint8_t { kOne, kWithPrevious, kWithNext };
  Releases releases_ = Releases::kOne;  // a process that starts again may be of the other one
  bool faults_on_ = true, decode_centric_ = false, uses_policies_ = false;
  std::map<WorkerId, std::unique_ptr<SimNode>> nodes_;
  std::map<WorkerId, Time> deaths_;
  std::vector<std::unique_ptr<SimNode>> graveyard_;
  std::map<WorkerId, WorkerDescriptor> registry_;
  bool registry_up_ = true;
  SimQueue queue_;
  SimNetwork network_;
  SimClients clients_;
  std::vector<NodeSpec> to_restart_;
  std::string crashes_;  // a process of this name, after so many outputs
  int64_t crashes_after_ = -1;
  Duration slack_{};  // clocks and processes that jumped or stood still may be off by so much
};

}  // namespace cheetah::cluster::simulation
