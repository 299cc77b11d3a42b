#include "cluster/core/simulation/sim_cluster.h"

#include <algorithm>
#include <utility>

#include "base/format.h"

namespace cheetah::cluster::simulation {
namespace {

constexpr double kFaultsMs = 4000, kSettledMs = 7500, kEndMs = 12000, kQuietMs = 25000;

}  // namespace

SimCluster::SimCluster(uint64_t seed, bool keep_log, const Planted& planted)
    : world_(seed, keep_log), planted_(planted), queue_(*this) {
  through_codec_ = seed % 8 == 0;
  uses_policies_ = seed % 2 == 0;
  draw_rates();
  build();
}

SimCluster::~SimCluster() = default;

void SimCluster::build() {
  decode_centric_ = world_.happens(0.3);
  const int64_t prefill = world_.below(3), decode = 1 + world_.below(3), both = world_.below(2);
  const int64_t memory = world_.happens(0.3) ? 12 : 48;
  const auto add = [&](const char* kind, int64_t number, bool router, bool worker, Role role) {
    start({.name = format("{}{}", kind, number),
           .router = router,
           .worker = worker,
           .role = role,
           .receive_pages = memory});
  };
  if (!decode_centric_)
    for (int64_t i = 0; i <= world_.below(2); ++i) add("r", i, true, false, Role::kRouter);
  for (int64_t i = 0; i < prefill; ++i) add("p", i, false, true, Role::kPrefill);
  for (int64_t i = 0; i < decode; ++i) add("d", i, decode_centric_, true, Role::kDecode);
  for (int64_t i = 0; i < both; ++i) add("b", i, false, true, Role::kBoth);
}

SimNode& SimCluster::start(const NodeSpec& spec) {
  const WorkerId id{world_.bits() | 1};
  auto owned = std::make_unique<SimNode>(*this, id, spec, world_.between(0, 5'000'000));
  SimNode& node = *owned;
  world_.log(format("{} starts as {:016x}", spec.name, static_cast<uint64_t>(id)));
  nodes_.emplace(id, std::move(owned));
  if (node.worker() != nullptr) announce(node.worker()->descriptor());
  for (const auto& [known, worker] : registry_)
    if (known != id) node.registry_says(RegistryPut{worker});
  for (const auto& [peer, unused] : nodes_)
    if (peer != id) link_later(id, peer, world_.between(1, 40));
  return node;
}

void SimCluster::kill(WorkerId id) {
  const auto found = nodes_.find(id);
  if (found == nodes_.end()) return;
  world_.log(format("{} dies", found->second->spec().name));
  found->second->die();
  graveyard_.push_back(std::move(found->second));  // it may be killed by what it does right now
  nodes_.erase(found);
  deaths_[id] = world_.now();
  for (auto& [uid, client] : clients_)
    if (client.router == id && !client.ended) client.orphaned = true;
  for (auto& [pair, one] : links_) {
    if (pair.first != id && pair.second != id) continue;
    if (!one.up) continue;
    one.up = false;
    const WorkerId peer = pair.first == id ? pair.second : pair.first;
    on(peer, world_.between(0, 30), [this, peer, id] {
      if (SimNode* node = find(peer)) node->tell_both(PeerDown{id});
    });
  }
  world_.after(milliseconds(40), [this, id] { check_orphans(id); });
  world_.after(milliseconds(1000), [this, id] {  // its lease
    registry_.erase(id);
    registry_tell([id](SimNode& node) { node.registry_says(RegistryGone{id}); });
  });
}

void SimCluster::restart_later(const NodeSpec& spec, Duration delay) {
  to_restart_.push_back(spec);
  world_.after(delay, [this, spec] {
    const auto waiting = std::find_if(to_restart_.begin(), to_restart_.end(),
                                      [&](const NodeSpec& one) { return one.name == spec.name; });
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
  world_.after(delay, [this, id, what = std::move(what)]() mutable {
    if (SimNode* node = find(id)) node->run_or_keep(std::move(what));
  });
}

std::optional<Time> SimCluster::death_of(WorkerId id) const {
  const auto found = deaths_.find(id);
  return found == deaths_.end() ? std::nullopt : std::optional(found->second);
}

// A poisoned request kills whoever runs it.
void SimCluster::request_submitted(SimNode& node, const EngineSubmit& submit) {
  const auto client = clients_.find(submit.key.uid);
  if (client == clients_.end() || !client->second.poison || !faults_on_ || node.router() != nullptr) return;
  injected("a request kills its worker");
  const NodeSpec spec = node.spec();
  kill(node.id());
  restart_later(spec, world_.between(100, 500));
}

Verdict SimCluster::run() {
  plan_faults();
  const int64_t requests = 5 + world_.below(8);
  for (int64_t i = 0; i < requests; ++i) world_.after(world_.between(60, 3600), [this] { ask(false); });
  while (world_.step(Time{} + milliseconds(kFaultsMs))) {
  }
  world_.log("everything heals");
  heal();
  for (int i = 0; i < 2; ++i)
    world_.after(milliseconds(kSettledMs - kFaultsMs) + world_.between(0, 500), [this] { ask(true); });
  while (world_.step(Time{} + milliseconds(kEndMs))) {
  }
  // Until all is quiet: a promise has to be kept in bounded time.
  const auto quiet = [&] {
    for (const auto& [id, node] : nodes_)
      if (!node->what_is_left().empty()) return false;
    return queue_.num_jobs() == 0;
  };
  for (double until = kEndMs; until <= kQuietMs && !quiet(); until += 500)
    while (world_.step(Time{} + milliseconds(until))) {
    }
  check_at_end();
  verdict_.violations = world_.violations();
  verdict_.log = world_.text();
  verdict_.steps = world_.num_steps();
  return std::move(verdict_);
}

void SimCluster::check_at_end() {
  check_clients();
  for (const auto& [id, node] : nodes_) {
    const std::string left = node->what_is_left();
    if (!left.empty()) world_.violate(format("{} still has {}", node->spec().name, left));
  }
  if (queue_.num_jobs() > 0) world_.violate(format("{} jobs are left on the queue", queue_.num_jobs()));
}

}  // namespace cheetah::cluster::simulation
