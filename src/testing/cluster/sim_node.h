// SPDX-License-Identifier: MIT
#pragma once
// One simulated process: a worker, a router or both, with an engine, receive memory and a clock of its own.
// It executes what its cores want, as node/ does with real ones.
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "cluster/core/router_core.h"
#include "cluster/core/worker_core.h"
#include "testing/cluster/oracle_engine.h"
#include "testing/cluster/planted_bug.h"
#include "testing/cluster/sim_pages.h"
#include "testing/cluster/sim_queue.h"
#include "testing/cluster/simulation.h"

namespace cheetah::cluster::simulation {

class SimCluster;

struct NodeSpec {
  std::string name;
  bool router = false, worker = true;
  Role role = Role::kBoth;
  int64_t receive_pages = 40;
  WireVersions wire = kWire;  // of its release
};

// A part that does what this output of a core asks for.
template <class Part, class Output>
concept Executes = requires(Part& part, const Output& output) {
  part.execute(output);
};

class SimNode {
 public:
  SimNode(SimCluster& cluster, WorkerId id, const NodeSpec& spec, Duration clock_offset);

  WorkerId id() const { return id_; }
  const NodeSpec& spec() const { return spec_; }
  Time clock() const;
  void jump_clock(Duration by) { clock_offset_ += by; }

  void tell(WorkerInput input);
  void tell(RouterInput input);
  void receive(WorkerId from, Message message);
  template <class Input>
  void tell_all(const Input& input) {  // the worker and the router, as far as there are any
    if (worker_) tell(WorkerInput(input));
    if (router_) tell(RouterInput(input));
  }

  // SIGSTOP: whatever happens to the process happens to it when it goes on.
  void die() { dead_ = true; }
  void stop() { stopped_ = ever_stopped_ = true; }
  void go_on();
  bool stopped() const { return stopped_; }
  bool ever_stopped() const { return ever_stopped_; }
  void run_or_keep(std::function<void()> what);

  SimPages& pages() { return pages_; }
  OracleEngine& engine() { return *engine_; }
  WorkerCore* worker() { return worker_.get(); }
  RouterCore* router() { return router_.get(); }
  bool drained() const { return drained_; }
  int jobs_wanted() const { return worker_ && !stopped_ ? worker_->jobs_wanted() - jobs_coming_ : 0; }
  void expect_job() { ++jobs_coming_; }
  void job_comes(DeliveryId delivery, const PrefillJob& job);
  std::string what_is_left() const;  // empty: nothing

 private:
  void arm();
  void beat();

  void execute(const SendMessage& output);
  void execute(const Count& output);
  void execute(const LogDecision& output);
  void execute(Emit& output);
  void execute(const EngineSubmit& output);
  void execute(const Announce& output);
  void execute(const WarmUp& output);
  void execute(const Drained&) { drained_ = true; }
  void execute(const RecordSpan&) {}
  template <class Output>
  requires Executes<SimPages, Output>
  void execute(const Output& output) { pages_.execute(output); }
  template <class Output>
  requires Executes<OracleEngine, Output>
  void execute(const Output& output) { engine_->execute(output); }
  template <class Output>
  requires Executes<SimQueue, Output>
  void execute(const Output& output) { queue_.execute(output); }

  SimCluster& cluster_;
  Simulation& simulation_;
  WorkerId id_;
  NodeSpec spec_;
  Duration clock_offset_;
  std::unique_ptr<Routing> routing_;
  std::unique_ptr<WorkerCore> worker_;
  std::unique_ptr<RouterCore> router_;
  WorkerWithBug worker_bug_;
  RouterWithBug router_bug_;
  std::unique_ptr<OracleEngine> engine_;
  SimPages pages_;
  SimQueue& queue_;
  bool dead_ = false, stopped_ = false, ever_stopped_ = false, drained_ = false;
  std::vector<std::function<void()>> kept_;
  Time armed_ = Time::max();
  int jobs_coming_ = 0;
};

}  // namespace cheetah::cluster::simulation
