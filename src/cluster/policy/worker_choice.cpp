// SPDX-License-Identifier: MIT
#include "cluster/policy/worker_choice.h"

#include <algorithm>
#include <cmath>

#include "base/hash.h"
#include "cluster/policy/offload.h"
#include "cluster/policy/predict.h"

namespace cheetah::cluster {
namespace {

struct Candidate {
  const WorkerView* worker = nullptr;
  size_t score_index = 0;  // in WorkerChoice::scores
  bool hot = false;
};

struct Round {
  const ClusterView& view;
  const RouteRequest& request;
  const RoutingConfig& config;
  const RouteMemory& memory;
  uint64_t turn;
  double mean_active = 0;
};

bool stale(const WorkerView& worker, const RoutingConfig& config) {
  return worker.load_age > std::chrono::milliseconds(config.stale_after_ms);
}

// An old report says nothing good: the worker counts as full besides what it said.
double load_of(const WorkerView& worker, const RoutingConfig& config) {
  return slot_share(worker) + (stale(worker, config) ? 1 : 0);
}

double match_of(const Round& round, const Candidate& c) {
  return c.hot ? 0 : matched_fraction(round.request, c.worker->descriptor.id);
}

double kv_aware_score(const Round& round, const Candidate& c) {
  RouteRequest request = round.request;
  if (c.hot) request.cached.clear();
  const CostModel& cost = round.config.cost;
  const double ms = decide_by_policy(round.view, *c.worker, request, round.config).ttft_ms();
  return ms + cost.balance_ms * load_of(*c.worker, round.config);
}

double latency_cost_of(const Round& round, const Candidate& c) {
  const WorkerView& w = *c.worker;
  const LatencyCostInputs inputs = {.kv_occupancy = kv_occupancy(w),
      .active = static_cast<double>(active_choices(w)),
      .cache_match = match_of(round, c),
      .bandwidth = w.load.bandwidth_share,
      .recent_prefix = !c.hot && round.memory.recent(round.request.prefix_hash, w.descriptor.id)};
  return latency_cost(inputs, round.config.latency_cost);
}

double cache_cost(const Round& round, const Candidate& c) {
  const WorkerView& w = *c.worker;
  const auto places = static_cast<double>(std::max<int64_t>(1, w.descriptor.max_sequences));
  const CacheScoreInputs inputs = {.matched_fraction = match_of(round, c),
      .waiting_share = static_cast<double>(w.load.waiting + w.sent_choices) / places,
      .running_share = static_cast<double>(w.load.running) / places};
  return -cache_score(inputs, round.config.cache_score);
}

double score_of(const Round& round, const Candidate& c) {
  const double old = stale(*c.worker, round.config) ? 1 : 0;
  switch (round.config.worker_policy) {
    case WorkerPolicy::kRoundRobin:
      return 0;
    case WorkerPolicy::kLeastLoaded:
    case WorkerPolicy::kPrefixAware:
      return load_of(*c.worker, round.config);
    case WorkerPolicy::kKvAware:
      return kv_aware_score(round, c);
    case WorkerPolicy::kLoadCost:
      return load_cost(std::max(kv_occupancy(*c.worker), old), static_cast<double>(active_choices(*c.worker)),
          round.config.load_cost);
    case WorkerPolicy::kLatencyCost:
      return latency_cost_of(round, c) + old * round.config.latency_cost.kv_occupancy;
    case WorkerPolicy::kCacheScore:
      return cache_cost(round, c) + old * round.config.cache_score.queue_length;
  }
  return 0;
}

// Rendezvous hashing: every prefix has its own order of all workers, in which the loss of one changes nothing
// for the others. The first within the bound of the mean load takes the request.
size_t by_prefix(const Round& round, const std::vector<Candidate>& all, WorkerReason& reason) {
  std::vector<size_t> order(all.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto weight = [&](size_t i) {
    return split_mix64(round.request.prefix_hash, static_cast<uint64_t>(all[i].worker->descriptor.id));
  };
  std::ranges::sort(order, std::greater{}, weight);
  double mean = 0;
  for (const Candidate& c : all) mean += load_of(*c.worker, round.config);
  mean /= static_cast<double>(all.size());
  for (const size_t i : order) {
    const WorkerView& w = *all[i].worker;
    const double one = 1.0 / static_cast<double>(std::max<int64_t>(1, w.descriptor.max_sequences));
    if (load_of(w, round.config) > round.config.load_bound * (mean + one)) continue;
    reason = i == order[0] ? WorkerReason::kPrefixHash : WorkerReason::kPrefixSpilled;
    return i;
  }
  reason = WorkerReason::kPrefixSpilled;
  return order[0];
}

WorkerReason reason_of(const Round& round, const Candidate& best) {
  switch (round.config.worker_policy) {
    case WorkerPolicy::kRoundRobin:
      return WorkerReason::kRoundRobin;
    case WorkerPolicy::kLeastLoaded:
    case WorkerPolicy::kPrefixAware:
      return WorkerReason::kLeastLoaded;
    case WorkerPolicy::kKvAware:
      return match_of(round, best) > 0 ? WorkerReason::kKvMatch : WorkerReason::kShortestWait;
    case WorkerPolicy::kLoadCost:
    case WorkerPolicy::kLatencyCost:
      return WorkerReason::kLowestCost;
    case WorkerPolicy::kCacheScore:
      return WorkerReason::kHighestScore;
  }
  return WorkerReason::kLeastLoaded;
}

std::vector<Candidate> candidates(const Round& round, WorkerChoice& choice, bool forgive) {
  std::vector<Candidate> all;
  for (const WorkerView& worker : round.view.workers) {
    const Ineligible why = why_not(worker, round.request, round.config);
    const bool can = why == Ineligible::kNone || (forgive && why == Ineligible::kExcluded);
    if (can) all.push_back({.worker = &worker, .score_index = choice.scores.size()});
    choice.scores.push_back({.worker = worker.descriptor.id,
        .cached_tokens = cached_tokens(round.request, worker.descriptor.id),
        .ineligible = can ? Ineligible::kNone : why});
  }
  return all;
}

// A worker far above the mean would get ever more of a popular prefix; without its bonus others take some of
// the requests, cache the prefix too, and the heat spreads.
void mark_hot(const Round& round, std::vector<Candidate>& all) {
  if (!round.config.hot_spot_prevention || all.size() < 2) return;
  double sum = 0;
  for (const Candidate& c : all) sum += static_cast<double>(active_choices(*c.worker));
  for (Candidate& c : all) {
    const auto active = static_cast<double>(active_choices(*c.worker));
    const double others = (sum - active) / static_cast<double>(all.size() - 1);
    c.hot = active >= static_cast<double>(round.config.hot_spot_min_choices) &&
            active > round.config.hot_spot_factor * others;
  }
}

}  // namespace

double load_cost(double occupancy, double active, const LoadCostWeights& weights) {
  return weights.occupancy * occupancy + weights.active * active;
}

double latency_cost(const LatencyCostInputs& in, const LatencyCostWeights& weights) {
  return weights.kv_occupancy * in.kv_occupancy + weights.active * in.active -
         weights.cache_match * in.cache_match + weights.bandwidth * in.bandwidth -
         weights.recent_prefix * (in.recent_prefix ? 1 : 0);
}

double cache_score(const CacheScoreInputs& in, const CacheScoreWeights& weights) {
  const bool reuse = weights.reuse_prefix && in.matched_fraction >= weights.min_cache_hit;
  return weights.prefix_cache * (reuse ? in.matched_fraction : 0) - weights.queue_length * in.waiting_share -
         weights.decode_load * in.running_share;
}

WorkerChoice choose_worker(const ClusterView& view, const RouteRequest& request, const RoutingConfig& config,
    const RouteMemory& memory, uint64_t turn) {
  const Round round{view, request, config, memory, turn};
  WorkerChoice choice;
  std::vector<Candidate> all = candidates(round, choice, false);
  if (all.empty()) {  // a worker that was lost and is there again is better than none
    choice.scores.clear();
    all = candidates(round, choice, true);
  }
  if (all.empty()) return choice;
  mark_hot(round, all);
  for (const Candidate& c : all) {
    choice.scores[c.score_index].score = score_of(round, c);
    choice.scores[c.score_index].hot = c.hot;
  }
  // Equals are told apart by the turn, so that none of them is always first.
  std::vector<size_t> order(all.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto id = [&](size_t i) { return static_cast<uint64_t>(all[i].worker->descriptor.id); };
  const auto score = [&](size_t i) { return choice.scores[all[i].score_index].score; };
  if (config.worker_policy == WorkerPolicy::kRoundRobin) {
    std::ranges::sort(order, {}, id);
    std::rotate(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(turn % order.size()), order.end());
  } else {
    std::ranges::sort(order, {}, [&](size_t i) { return std::pair(score(i), split_mix64(turn, id(i))); });
  }
  choice.reason = reason_of(round, all[order[0]]);
  if (config.worker_policy == WorkerPolicy::kPrefixAware && request.prefix_hash != 0) {
    const size_t chosen = by_prefix(round, all, choice.reason);
    std::stable_partition(order.begin(), order.end(), [&](size_t i) { return i == chosen; });
  }
  choice.worker = all[order[0]].worker;
  if (order.size() > 1) choice.second = all[order[1]].worker;
  if (all.size() == 1) choice.reason = WorkerReason::kOnlyOne;
  return choice;
}

}  // namespace cheetah::cluster
