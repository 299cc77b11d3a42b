// SPDX-License-Identifier: MIT
#include "cluster/policy/policy_config.h"

#include <algorithm>

#include "cluster/policy/config_reader.h"

namespace cheetah::cluster {
namespace {

constexpr size_t kMaxBytes = 1 << 20;
constexpr int64_t kManyTokens = 100'000'000;

constexpr Named<WorkerPolicy> kWorkerPolicies[] = {{"round_robin", WorkerPolicy::kRoundRobin},
    {"least_loaded", WorkerPolicy::kLeastLoaded}, {"prefix_aware", WorkerPolicy::kPrefixAware},
    {"kv_aware", WorkerPolicy::kKvAware}, {"load_cost", WorkerPolicy::kLoadCost},
    {"latency_cost", WorkerPolicy::kLatencyCost}, {"cache_score", WorkerPolicy::kCacheScore},
    // Their names until 0.1.
    {"latency_two", WorkerPolicy::kLoadCost}, {"latency_five", WorkerPolicy::kLatencyCost},
    {"split", WorkerPolicy::kCacheScore}};
constexpr Named<OffloadPolicy> kOffloadPolicies[] = {{"never", OffloadPolicy::kNever},
    {"always", OffloadPolicy::kAlways}, {"threshold", OffloadPolicy::kThreshold},
    {"score", OffloadPolicy::kScore}, {"cost", OffloadPolicy::kCost}};
constexpr Named<OffloadMetric> kMetrics[] = {{"prefill_length", OffloadMetric::kPrefillLength},
    {"prefill_queue_depth", OffloadMetric::kPrefillQueueDepth}, {"decode_load", OffloadMetric::kDecodeLoad},
    {"matched_fraction", OffloadMetric::kMatchedFraction}};
constexpr Named<OffloadAction> kActions[] = {
    {"prefer_remote", OffloadAction::kPreferRemote}, {"prefer_local", OffloadAction::kPreferLocal}};

void read_rule(TableReader& t, OffloadRule& rule) {
  t.choice("metric", rule.metric, kMetrics);
  t.number("threshold", rule.threshold, 0, 1e9);
  t.choice("action", rule.action, kActions);
  t.number("weight", rule.weight, 0, 1e6);
}

void read_load_cost(TableReader& t, LoadCostWeights& c) {
  t.number("occupancy", c.occupancy, 0, 1e6);
  t.number("active", c.active, 0, 1e6);
}

void read_latency_cost(TableReader& t, LatencyCostWeights& c) {
  t.number("kv_occupancy", c.kv_occupancy, 0, 1e6);
  t.number("active", c.active, 0, 1e6);
  t.number("cache_match", c.cache_match, 0, 1e6);
  t.number("bandwidth", c.bandwidth, 0, 1e6);
  t.number("recent_prefix", c.recent_prefix, 0, 1e6);
}

void read_cache_score(TableReader& t, CacheScoreWeights& c) {
  t.number("prefix_cache_weight", c.prefix_cache, 0, 1e6);
  t.number("queue_length_weight", c.queue_length, 0, 1e6);
  t.number("decode_load_weight", c.decode_load, 0, 1e6);
  t.share("min_cache_hit_ratio", c.min_cache_hit);
  t.flag("reuse_prefix", c.reuse_prefix);
}

// Each table by its name and by the one it had until 0.1.
void read_weights(TableReader& t, RoutingConfig& c) {
  for (const char* name : {"latency_two", "load_cost"})
    t.table(name, [&](TableReader& w) { read_load_cost(w, c.load_cost); });
  for (const char* name : {"latency_five", "latency_cost"})
    t.table(name, [&](TableReader& w) { read_latency_cost(w, c.latency_cost); });
  for (const char* name : {"split", "cache_score"})
    t.table(name, [&](TableReader& w) { read_cache_score(w, c.cache_score); });
}

void read_cost(TableReader& t, CostModel& c) {
  t.number("prefill_us_per_token", c.prefill_us_per_token, 0.001, 1e7);
  t.number("decode_step_us", c.decode_step_us, 0.001, 1e8);
  t.number("transfer_bytes_per_s", c.transfer_bytes_per_s, 1, 1e15);
  t.number("transfer_overhead_ms", c.transfer_overhead_ms, 0, 1e6);
  t.share("hidden_transfer", c.hidden_transfer);
  t.number("interference", c.interference, 0, 1e3);
  t.number("balance_ms", c.balance_ms, 0, 1e6);
  t.number("margin_ms", c.margin_ms, 0, 1e6);
}

void read_worth(TableReader& t, WorthConfig& c) {
  t.flag("enabled", c.enabled);
  t.share("explore", c.explore);
  t.share("margin", c.margin);
  t.integer("min_samples", c.min_samples, 1, 1'000'000);
  t.share("alpha", c.alpha);
}

void read_routing(TableReader& t, RoutingConfig& c) {
  t.choice("worker_policy", c.worker_policy, kWorkerPolicies);
  t.choice("offload_policy", c.offload_policy, kOffloadPolicies);
  t.milliseconds("stale_after_ms", c.stale_after_ms);
  t.milliseconds("silent_after_ms", c.silent_after_ms);
  t.number("load_bound", c.load_bound, 1, 1e3);
  t.flag("hot_spot_prevention", c.hot_spot_prevention);
  t.number("hot_spot_factor", c.hot_spot_factor, 1, 1e3);
  t.integer("hot_spot_min_choices", c.hot_spot_min_choices, 1, 1'000'000);
  t.integer("recent_prefixes", c.recent_prefixes, 0, 10'000'000);
  t.integer("urgent_priority", c.urgent_priority, -1'000'000, 1'000'000);
  t.flag("race", c.race);
  t.table("threshold", [&](TableReader& w) {
    w.integer("prefill_length", c.threshold.prefill_length, 0, kManyTokens);
    w.integer("moderate_length", c.threshold.moderate_length, 0, kManyTokens);
    w.integer("max_queue", c.threshold.max_queue, 0, 1'000'000);
    w.integer("busy_choices", c.threshold.busy_choices, 0, 1'000'000);
  });
  t.number("remote_min_score", c.remote_min_score, -1e6, 1e6);
  t.tables<OffloadRule>("rule", c.rules, read_rule);
  read_weights(t, c);
  t.table("cost", [&](TableReader& w) { read_cost(w, c.cost); });
  t.table("worth", [&](TableReader& w) { read_worth(w, c.worth); });
  t.table("fetch", [&](TableReader& w) {
    w.flag("enabled", c.fetch.enabled);
    w.integer("min_tokens", c.fetch.min_tokens, 1, kManyTokens);
    w.number("margin_ms", c.fetch.margin_ms, 0, 1e6);
  });
  if (c.silent_after_ms < c.stale_after_ms) t.fail("silent_after_ms", "expected at least stale_after_ms");
}

void read_class(TableReader& t, QosClass& c) {
  t.text("name", c.name);
  t.share("reserved", c.reserved);
  t.integer("priority", c.priority, -1'000'000, 1'000'000);
  t.number("ttft_slo_ms", c.ttft_slo_ms, 0, 1e9);
  t.number("tpot_slo_ms", c.tpot_slo_ms, 0, 1e9);
  t.flag("may_borrow", c.may_borrow);
  t.flag("reject_early", c.reject_early);
  t.flag("degrade", c.degrade);
  t.text("degrade_to", c.degrade_to);
  if (c.name.empty()) t.fail("name", "expected the name of the class");
}

void read_breaker(TableReader& t, BreakerConfig& c) {
  t.integer("failures", c.failures, 1, 1'000'000);
  t.number("max_depth", c.max_depth, 0, 1e9);
  t.milliseconds("depth_ms", c.depth_ms);
  t.integer("open_ms", c.open_ms, 1, 86'400'000);
  t.integer("max_open_ms", c.max_open_ms, 1, 86'400'000);
  t.integer("probes", c.probes, 1, 1'000'000);
}

bool has_class(const QosConfig& c, const std::string& name) {
  return std::ranges::find(c.classes, name, &QosClass::name) != c.classes.end();
}

void check_classes(TableReader& t, const QosConfig& c) {
  double reserved = 0;
  for (const QosClass& one : c.classes) {
    reserved += one.reserved;
    if (std::ranges::count(c.classes, one.name, &QosClass::name) > 1)
      t.fail("class", format("'{}' stands there twice", printable(one.name)));
  }
  if (c.classes.empty()) t.fail("class", "expected at least one class");
  if (reserved > 1 + 1e-9)
    t.fail("class", format("the reserved shares sum to {:.3g}: expected at most 1", reserved));
  if (!has_class(c, c.default_class))
    t.fail("default_class", format("there is no class '{}'", printable(c.default_class)));
  for (const QosMatch& match : c.matches)
    if (!has_class(c, match.qos_class))
      t.fail("match", format("there is no class '{}'", printable(match.qos_class)));
}

void read_qos(TableReader& t, QosConfig& c) {
  t.flag("enabled", c.enabled);
  t.flag("enable_early_rejection", c.early_rejection);
  t.tables<QosClass>("class", c.classes, read_class);
  t.tables<QosMatch>("match", c.matches, [](TableReader& w, QosMatch& match) {
    w.text("header", match.header);
    w.text("value", match.value);
    w.text("tenant", match.value);
    w.text("class", match.qos_class);
  });
  t.text("default_class", c.default_class);
  t.number("safety", c.safety, 0.01, 100);
  t.number("max_decode_share", c.max_decode_share, 0, 100);
  t.number("queue_places", c.queue_places, 0, 1e3);
  t.share("borrow_limit", c.borrow_limit);
  t.milliseconds("max_queue_ms", c.max_queue_ms);
  t.share("ema_alpha", c.ema_alpha);
  t.integer("degraded_output", c.degraded_output, 0, kManyTokens);
  t.number("degraded_slo_factor", c.degraded_slo_factor, 1, 1e3);
  t.flag("degrade_no_remote", c.degrade_no_remote);
  t.text("degrade_to", c.degrade_to);
  t.tables<Quota>("quota", c.quotas, [](TableReader& w, Quota& quota) {
    w.text("tenant", quota.tenant);
    w.number("tokens_per_s", quota.tokens_per_s, 0, 1e12);
    w.number("burst_tokens", quota.burst_tokens, 0, 1e12);
    if (quota.tenant.empty()) w.fail("tenant", "expected the tenant's name, or \"*\" for everyone");
  });
  t.integer("max_tenants", c.max_tenants, 1, 10'000'000);
  t.table("prefill_breaker", [&](TableReader& w) { read_breaker(w, c.prefill_breaker); });
  t.table("decode_breaker", [&](TableReader& w) { read_breaker(w, c.decode_breaker); });
  check_classes(t, c);
}

void read_limits(TableReader& t, ScaleLimits& c) {
  t.number("queue_length", c.queue_length, 0, 1e6);
  t.share("gpu_utilization", c.utilization);
  t.share("kv_cache_usage", c.kv_usage);
}

void read_pool(TableReader& t, PoolScaling& c) {
  t.integer("min_replicas", c.min_replicas, 0, 100'000);
  t.integer("max_replicas", c.max_replicas, 0, 100'000);
  t.table("scale_up", [&](TableReader& w) { read_limits(w, c.up); });
  t.table("scale_down", [&](TableReader& w) { read_limits(w, c.down); });
  if (c.min_replicas > c.max_replicas) t.fail("max_replicas", "expected at least min_replicas");
  const auto crossed = [](double up, double down) { return up > 0 && down > 0 && down >= up; };
  if (crossed(c.up.queue_length, c.down.queue_length) || crossed(c.up.utilization, c.down.utilization) ||
      crossed(c.up.kv_usage, c.down.kv_usage))
    t.fail("scale_down", "expected numbers below those of scale_up");
}

void read_autoscale(TableReader& t, AutoscaleConfig& c) {
  t.flag("enabled", c.enabled);
  t.table("prefill", [&](TableReader& w) { read_pool(w, c.prefill); });
  t.table("decode", [&](TableReader& w) { read_pool(w, c.decode); });
  t.integer("samples_up", c.samples_up, 1, 1'000'000);
  t.integer("samples_down", c.samples_down, 1, 1'000'000);
  t.milliseconds("cooldown_up_ms", c.cooldown_up_ms);
  t.milliseconds("cooldown_down_ms", c.cooldown_down_ms);
  t.integer("max_step_up", c.max_step_up, 1, 100'000);
  t.table("slo", [&](TableReader& w) {
    w.flag("enabled", c.slo.enabled);
    w.number("ttft_ms", c.slo.ttft_ms, 1, 1e7);
    w.number("tpot_ms", c.slo.tpot_ms, 0.01, 1e6);
    w.number("headroom", c.slo.headroom, 0, 0.9);
    w.milliseconds("horizon_ms", c.slo.horizon_ms);
    w.milliseconds("hold_ms", c.slo.hold_ms);
    w.integer("drain_ms", c.slo.drain_ms, 100, 86'400'000);
  });
}

void read_roles(TableReader& t, FlipConfig& c) {
  t.flag("enabled", c.enabled);
  t.number("band", c.band, 0, 0.99);
  t.milliseconds("dwell_ms", c.dwell_ms);
  t.milliseconds("cooldown_ms", c.cooldown_ms);
  t.integer("min_prefill", c.min_prefill, 0, 100'000);
  t.integer("min_decode", c.min_decode, 1, 100'000);
  t.number("min_utilization", c.min_utilization, 0, 100);
  t.integer("samples", c.samples, 1, 1'000'000);
}

}  // namespace

PolicyConfig parse_policy_config(std::string_view text, const std::string& what) {
  if (text.size() > kMaxBytes)
    throw Error(format("{}: is larger than {} bytes, too much for a configuration", what, kMaxBytes));
  toml::table root;
  try {
    root = toml::parse(text);
  } catch (const toml::parse_error& error) {
    const auto at = error.source().begin;
    throw Error(format("{}:{}:{}: {}", what, at.line, at.column, error.description()));
  }
  PolicyConfig config;
  TableReader reader(root, "", what);
  reader.table("routing", [&](TableReader& t) { read_routing(t, config.routing); });
  reader.table("qos", [&](TableReader& t) { read_qos(t, config.qos); });
  reader.table("autoscale", [&](TableReader& t) { read_autoscale(t, config.autoscale); });
  reader.table("roles", [&](TableReader& t) { read_roles(t, config.roles); });
  reader.done();
  return config;
}

Reload reload_policy_config(std::string_view text, const std::string& what) {
  try {
    return {.config = parse_policy_config(text, what)};
  } catch (const Error& error) {
    return {.why_not = error.what()};
  }
}

}  // namespace cheetah::cluster
