// SPDX-License-Identifier: MIT
#include "testing/cluster/sim_cluster.h"

#include <algorithm>
#include <utility>

#include "base/format.h"

namespace cheetah::cluster::simulation {
namespace {

constexpr double kFaultsMs = 4000, kSettledMs = 7500, kEndMs = 12000, kQuietMs = 25000;

}  // namespace

SimCluster::SimCluster(uint64_t seed, bool keep_log, PlantedBug bug)
    : simulation_(seed, keep_log), bug_(bug), queue_(*this), network_(*this, seed % 8 == 0), clients_(*this) {
  uses_policies_ = seed % 2 == 0;
  rates_ = draw_rates(simulation_);
  build();
}

SimCluster::~SimCluster() = default;

void SimCluster::build() {
  decode_centric_ = simulation_.happens(0.3);
  if (simulation_.happens(0.25))
    releases_ = simulation_.happens(0.5) ? Releases::kWithPrevious : Releases::kWithNext;
  const int64_t most_decode = simulation_.happens(0.001) ? 60 : simulation_.happens(0.2) ? 9 : 3;
  const int64_t prefill = simulation_.below(3), decode = 1 + simulation_.below(most_decode),
                both = simulation_.below(2);
  const int64_t memory = simulation_.happens(0.3) ? 12 : 48;
  const auto add = [&](const char* kind, int64_t number, bool router, bool worker, Role role) {
    start({.name = format("{}{}", kind, number),
        .router = router,
        .worker = worker,
        .role = role,
        .receive_pages = memory});
  };
  if (!decode_centric_)
    for (int64_t i = 0; i <= simulation_.below(2); ++i) add("r", i, true, false, Role::kRouter);
  for (int64_t i = 0; i < prefill; ++i) add("p", i, false, true, Role::kPrefill);
  for (int64_t i = 0; i < decode; ++i) add("d", i, decode_centric_, true, Role::kDecode);
  for (int64_t i = 0; i < both; ++i) add("b", i, false, true, Role::kBoth);
}

SimNode& SimCluster::start(const NodeSpec& wanted) {
  const WorkerId id{simulation_.bits() | 1};
  NodeSpec spec = wanted;
  if (mixes_releases())
    spec.wire = simulation_.happens(0.5)               ? kWire
                : releases_ == Releases::kWithPrevious ? WireVersions{4, 4}
                                                       : WireVersions{6, 5};
  auto owned = std::make_unique<SimNode>(*this, id, spec, simulation_.between(0, 5'000'000));
  SimNode& node = *owned;
  simulation_.log(format("{} starts as {:016x}", spec.name, static_cast<uint64_t>(id)));
  nodes_.emplace(id, std::move(owned));
  if (node.worker() != nullptr) announce(node.worker()->descriptor());
  for (const auto& [known, worker] : registry_)
    if (known != id) node.tell_all(RegistryPut{worker});
  for (const auto& [peer, unused] : nodes_)
    if (peer != id) network_.link_later(id, peer, simulation_.between(1, 40));
  return node;
}

void SimCluster::kill(WorkerId id) {
  const auto found = nodes_.find(id);
  if (found == nodes_.end()) return;
  simulation_.log(format("{} dies", found->second->spec().name));
  found->second->die();
  graveyard_.push_back(std::move(found->second));  // it may be killed by what it does right now
  nodes_.erase(found);
  deaths_[id] = simulation_.now();
  clients_.router_died(id);
  network_.process_died(id);
  simulation_.after(milliseconds(40), [this, id] { clients_.check_orphans(id); });
  simulation_.after(milliseconds(1000), [this, id] {  // its lease
    registry_.erase(id);
    registry_tell([id](SimNode& node) { node.tell_all(RegistryGone{id}); });
  });
}

void SimCluster::restart_later(const NodeSpec& spec, Duration delay) {
  to_restart_.push_back(spec);
  simulation_.after(delay, [this, spec] {
    const auto waiting = std::find_if(
        to_restart_.begin(), to_restart_.end(), [&](const NodeSpec& one) { return one.name == spec.name; });
    if (waiting == to_restart_.end()) return;
    to_restart_.erase(waiting);
    start(spec);
  });
}

SimNode* SimCluster::find(WorkerId id) {
  const auto found = nodes_.find(id);
  return found == nodes_.end() ? nullptr : found->second.get();
}

void SimCluster::on(WorkerId id, Duration delay, std::function<void()> what) {
  simulation_.after(delay, [this, id, what = std::move(what)]() mutable {
    if (SimNode* node = find(id)) node->run_or_keep(std::move(what));
  });
}

std::optional<Time> SimCluster::death_of(WorkerId id) const {
  const auto found = deaths_.find(id);
  return found == deaths_.end() ? std::nullopt : std::optional(found->second);
}

// A poisoned request kills the worker that runs it.
void SimCluster::request_submitted(SimNode& node, const EngineSubmit& submit) {
  if (!clients_.is_poison(submit.key.uid) || !faults_on_ || node.router() != nullptr) return;
  injected("a request kills its worker");
  const NodeSpec spec = node.spec();
  kill(node.id());
  restart_later(spec, simulation_.between(100, 500));
}

Verdict SimCluster::run() {
  plan_faults();
  const int64_t requests = 5 + simulation_.below(8);
  for (int64_t i = 0; i < requests; ++i)
    simulation_.after(simulation_.between(60, 3600), [this] { clients_.ask(false); });
  while (simulation_.step(Time{} + milliseconds(kFaultsMs))) {
  }
  simulation_.log("everything heals");
  heal();
  for (int i = 0; i < 2; ++i)
    simulation_.after(
        milliseconds(kSettledMs - kFaultsMs) + simulation_.between(0, 500), [this] { clients_.ask(true); });
  while (simulation_.step(Time{} + milliseconds(kEndMs))) {
  }
  // Until all is quiet: a promise has to be kept in bounded time.
  const auto quiet = [&] {
    for (const auto& [id, node] : nodes_)
      if (!node->what_is_left().empty()) return false;
    return queue_.num_jobs() == 0;
  };
  for (double until = kEndMs; until <= kQuietMs && !quiet(); until += 500)
    while (simulation_.step(Time{} + milliseconds(until))) {
    }
  check_at_end();
  verdict_.clients = clients_.counts();
  verdict_.violations = simulation_.violations();
  verdict_.log = simulation_.text();
  verdict_.steps = simulation_.num_steps();
  return std::move(verdict_);
}

void SimCluster::announce(const WorkerDescriptor& descriptor) {
  registry_[descriptor.id] = descriptor;
  if (registry_up_) registry_tell([descriptor](SimNode& node) { node.tell_all(RegistryPut{descriptor}); });
}

void SimCluster::registry_tell(const std::function<void(SimNode&)>& what) {
  std::vector<WorkerId> ids;
  for (const auto& [id, node] : nodes_) ids.push_back(id);
  for (const WorkerId id : ids)
    on(id, simulation_.between(1, 40), [this, id, what] {
      if (SimNode* node = find(id)) what(*node);
    });
}

void SimCluster::check_at_end() {
  clients_.check_at_end();
  for (const auto& [id, node] : nodes_) {
    const std::string left = node->what_is_left();
    if (!left.empty()) simulation_.violate(format("{} still has {}", node->spec().name, left));
  }
  if (queue_.num_jobs() > 0) simulation_.violate(format("{} jobs are left on the queue", queue_.num_jobs()));
}

}  // namespace cheetah::cluster::simulation
