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
#include "cluster/core/simulation/oracle_engine.h"
#include "cluster/core/simulation/world.h"
#include "cluster/core/worker_core.h"

namespace cheetah::cluster::simulation {

class SimCluster;

struct NodeSpec {
  std::string name;
  bool router = false, worker = true;
  Role role = Role::kBoth;
  int64_t receive_pages = 40;
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
  void tell_both(const PeerUp& input);
  void tell_both(const PeerDown& input);
  void receive(WorkerId from, Message message);
  void registry_says(const RegistryPut& input);
  void registry_says(const RegistryGone& input);

  // SIGSTOP: whatever happens to the process happens to it when it goes on.
  void die() { dead_ = true; }
  void stop() { stopped_ = ever_stopped_ = true; }
  void go_on();
  bool stopped() const { return stopped_; }
  bool ever_stopped() const { return ever_stopped_; }
  void run_or_keep(std::function<void()> what);

  // Called by the writing side: the bytes reach this process's memory, whatever the process does.
  enum class Landing { kLanded, kRefused };
  Landing land(WorkerId writer, ReservationId reservation, int64_t first_token, std::vector<uint64_t> pages);

  OracleEngine& engine() { return *engine_; }
  WorkerCore* worker() { return worker_.get(); }
  RouterCore* router() { return router_.get(); }
  bool drained() const { return drained_; }
  int jobs_wanted() const { return worker_ && !stopped_ ? worker_->jobs_wanted() - jobs_coming_ : 0; }
  void expect_job() { ++jobs_coming_; }
  void job_comes(DeliveryId delivery, const PrefillJob& job);
  std::string what_is_left() const;  // empty: nothing
  int64_t num_reservations() const { return static_cast<int64_t>(memory_.size()); }

 private:
  struct Memory {
    int64_t first_token = 0;
    std::vector<uint64_t> pages;
    bool quarantined = false;
    bool fenced = false;
  };
  struct Write {
    RequestKey key;
    PostSlab slab;
  };

  template <class Input>
  void handle_worker(Input input);
  void handle_router(RouterInput input);
  void arm();
  void beat();

  void execute(const SendMessage& output);
  void execute(const Count& output);
  void execute(const LogDecision& output);
  void execute(Emit& output);
  void execute(const EngineSubmit& output);
  void execute(const EngineCancel& output) { engine_->cancel(output.key); }
  void execute(const EnginePause& output) { engine_->pause(output.key, output.paused); }
  void execute(const LookUpCache& output);
  void execute(const ReserveSpace& output);
  void execute(const ImportSlab& output);
  void execute(const Unpin& output) { engine_->unpin(output.key); }
  void execute(const Quarantine& output);
  void execute(const FenceReservation& output);
  void execute(const FreeReservation& output);
  void execute(const PushJob& output);
  void execute(const AckJob& output);
  void execute(const NackJob& output);
  void execute(const ExtendJob& output);
  void execute(const StartExport& output);
  void execute(const ReleaseExport& output);
  void execute(const PostSlab& output);
  void execute(const FenceWrites& output);
  void execute(const Announce& output);
  void execute(const WarmUp& output);
  void execute(const Drained&) { drained_ = true; }
  void execute(const RecordSpan&) {}
  void finish_import(const ImportSlab& output);
  void finish_write(uint64_t number);

  SimCluster& cluster_;
  World& world_;
  WorkerId id_;
  NodeSpec spec_;
  Duration clock_offset_;
  std::unique_ptr<Routing> routing_;
  std::unique_ptr<WorkerCore> worker_;
  std::unique_ptr<RouterCore> router_;
  std::unique_ptr<OracleEngine> engine_;
  std::map<ReservationId, Memory> memory_;
  std::set<ReservationId> fenced_;
  uint64_t next_reservation_ = 1, next_write_ = 1;
  std::map<uint64_t, Write> writes_;  // of ours, not answered
  std::map<RequestKey, std::vector<uint64_t>> export_names_;
  bool dead_ = false, stopped_ = false, ever_stopped_ = false, drained_ = false;
  std::vector<std::function<void()>> kept_;
  Time armed_ = Time::max();
  int jobs_coming_ = 0;
};

}  // namespace cheetah::cluster::simulation
