// SPDX-License-Identifier: MIT
// Everything that can go wrong.
#include <algorithm>

#include "base/format.h"
#include "testing/cluster/sim_cluster.h"

namespace cheetah::cluster::simulation {
namespace {

constexpr double kKeepAliveMs = 900;  // a link that says nothing for so long is down

}  // namespace

bool SimCluster::fault(double probability, const char* what) {
  if (!faults_on_ || probability <= 0 || !simulation_.happens(probability)) return false;
  injected(what);
  return true;
}

void SimCluster::injected(const char* what) {
  ++verdict_.faults;
  ++verdict_.fault_kinds[what];
  if (simulation_.logs()) simulation_.log(format("FAULT {}", what));
}

FaultRates draw_rates(Simulation& simulation) {
  const auto sometimes = [&](double share, double rate) { return simulation.happens(share) ? rate : 0; };
  return {.drop = sometimes(0.3, 0.01),
      .twice = sometimes(0.4, 0.02),
      .late = sometimes(0.3, 0.02),
      .lose_job = sometimes(0.3, 0.2),
      .double_job = sometimes(0.4, 0.2),
      .late_job = sometimes(0.3, 0.2),
      .stall = sometimes(0.4, 0.08),
      .damage = sometimes(0.3, 0.08),
      .engine = sometimes(0.2, 0.02)};
}

void SimCluster::plan_faults() {
  if (SimNode* node = any_node(simulation_.happens(0.8)); node != nullptr && simulation_.happens(0.5)) {
    crashes_ = node->spec().name;
    crashes_after_ = 20 + simulation_.below(400);
  }
  if (simulation_.happens(0.3)) simulation_.after(simulation_.between(300, 3500), [this] { kill_router(); });
  const int64_t count = 1 + simulation_.below(6);
  for (int64_t i = 0; i < count; ++i)
    simulation_.after(simulation_.between(150, 3800), [this] {
      if (faults_on_) inject();
    });
}

// Dies where no message boundary protects it: having done one thing, before the next.
void SimCluster::may_crash(SimNode& node) {
  if (!faults_on_ || crashes_after_ < 0 || node.spec().name != crashes_ || crashes_after_-- > 0) return;
  injected("a process dies between two of its outputs");
  const NodeSpec spec = node.spec();
  kill(node.id());
  restart_later(spec, simulation_.between(100, 1000));
}

SimNode* SimCluster::any_node(bool workers_only) {
  std::vector<SimNode*> choice;
  for (const auto& [id, node] : nodes_)
    if (!workers_only || (node->worker() != nullptr && node->router() == nullptr))
      choice.push_back(node.get());
  if (choice.empty()) return nullptr;
  return choice[static_cast<size_t>(simulation_.below(static_cast<int64_t>(choice.size())))];
}

// Several processes at once, as when a whole machine is suspended: each of them sees the ends of its links one
// by one when it goes on.
void SimCluster::stop_host() {
  injected("a host stands still");
  const Duration length = simulation_.between(50, 3000);
  slack_ += length;
  std::vector<WorkerId> stopped, running;
  for (const auto& [id, node] : nodes_) {
    const bool here = simulation_.happens(0.4);
    (here ? stopped : running).push_back(id);
    if (here) node->stop();
  }
  simulation_.after(length, [this, stopped] {
    for (const WorkerId id : stopped)
      if (SimNode* node = find(id)) node->go_on();
  });
  if (length <= milliseconds(kKeepAliveMs)) return;
  for (const WorkerId a : stopped)
    for (const WorkerId b : running)
      simulation_.after(milliseconds(kKeepAliveMs), [this, a, b] { network_.link_down(a, b); });
}

// Its clients come back to another one, or to itself when it is there again.
void SimCluster::kill_router() {
  std::vector<SimNode*> routers;
  for (const auto& [id, node] : nodes_)
    if (node->router() != nullptr) routers.push_back(node.get());
  if (routers.empty() || !faults_on_) return;
  SimNode& one = *routers[static_cast<size_t>(simulation_.below(static_cast<int64_t>(routers.size())))];
  injected("a router is killed");
  const NodeSpec spec = one.spec();
  kill(one.id());
  restart_later(spec, simulation_.between(200, 1500));
}

void SimCluster::inject() {
  SimNode* node = any_node(simulation_.happens(0.8));
  SimNode* other = any_node(false);
  if (node == nullptr || other == nullptr) return;
  const WorkerId a = node->id(), b = other->id();
  switch (simulation_.below(11)) {
    case 0:
    case 1: {
      injected("a process is killed");
      const NodeSpec spec = node->spec();
      kill(a);
      restart_later(spec, simulation_.between(200, 1500));
      break;
    }
    case 2: {
      injected("a process stands still");
      const Duration length = simulation_.between(50, 3000);
      slack_ += length;
      node->stop();
      simulation_.after(length, [this, a] {
        if (SimNode* stopped = find(a)) stopped->go_on();
      });
      for (const auto& [id, peer] : nodes_)
        if (id != a && length > milliseconds(kKeepAliveMs))
          simulation_.after(milliseconds(kKeepAliveMs), [this, a, id = id] { network_.link_down(a, id); });
      break;
    }
    case 3:
      if (a == b) break;
      injected("a link breaks");
      network_.link_down(a, b);
      break;
    case 4: {
      if (a == b) break;
      injected("a partition");
      network_.cut(a, b);
      simulation_.after(simulation_.between(100, 2500), [this, a, b] { network_.mend(a, b); });
      break;
    }
    case 5:
      if (a == b) break;
      injected("a link goes deaf one way");
      network_.go_deaf(a, b);
      simulation_.after(milliseconds(kKeepAliveMs), [this, a, b] { network_.link_down(a, b); });
      break;
    case 6:
      injected("the registry is away");
      registry_up_ = false;
      simulation_.after(simulation_.between(200, 2000), [this] {
        registry_up_ = true;
        for (const auto& [id, worker] : registry_) announce(WorkerDescriptor(worker));
      });
      break;
    case 7:
      injected("the queue is away");
      queue_.set_up(false);
      simulation_.after(simulation_.between(200, 2000), [this] { queue_.set_up(true); });
      break;
    case 8:
      injected("a clock jumps");
      {
        const Duration jump = simulation_.between(100, 5000);
        slack_ += jump;
        node->jump_clock(jump);
      }
      break;
    case 9:
      stop_host();
      break;
    default:
      if (node->worker() == nullptr) break;
      if (simulation_.happens(0.4)) {
        injected("a worker is told to drain");
        node->tell(WorkerInput(DrainRequested{simulation_.between(20, 500)}));
      } else {
        injected("a worker is told to flip its role");
        const auto role = static_cast<Role>(1 + simulation_.below(3));
        node->receive(a,
            FlipRole{role, node->worker()->descriptor().epoch + static_cast<uint64_t>(simulation_.below(2))});
      }
  }
}

// Everything works again, and every process is there.
void SimCluster::heal() {
  faults_on_ = false;
  rates_ = {};
  registry_up_ = true;
  queue_.set_up(true);
  std::vector<WorkerId> ids;
  for (const auto& [id, node] : nodes_) ids.push_back(id);
  for (const WorkerId id : ids) {
    SimNode* node = find(id);
    if (node == nullptr) continue;
    node->engine().set_failure(0);
    if (node->stopped()) node->go_on();
    if (find(id) == nullptr || node->worker() == nullptr) continue;
    if (node->worker()->descriptor().state == WorkerState::kReady) continue;
    const NodeSpec spec = node->spec();  // it drains: its place is taken by a new one
    kill(id);
    start(spec);
  }
  for (const NodeSpec& spec : to_restart_) start(spec);
  to_restart_.clear();
  const bool decodes = std::any_of(nodes_.begin(), nodes_.end(), [](const auto& one) {
    return one.second->worker() != nullptr && one.second->worker()->descriptor().role != Role::kPrefill;
  });
  if (!decodes)
    start({.name = "late", .router = false, .worker = true, .role = Role::kBoth, .receive_pages = 48});
  for (const auto& [id, worker] : registry_) announce(WorkerDescriptor(worker));
  for (const auto& [a, first] : nodes_)
    for (const auto& [b, second] : nodes_)
      if (a < b) network_.heal(a, b, simulation_.between(10, 60));
}

}  // namespace cheetah::cluster::simulation
