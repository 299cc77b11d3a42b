// SPDX-License-Identifier: MIT
#include "cluster/policy/cluster_metrics.h"

#include "observe/prometheus_text.h"

namespace cheetah::cluster {
namespace {

template <class T>
double number(T value) {
  return static_cast<double>(value);
}

std::string_view name_of(Role role) {
  switch (role) {
    case Role::kRouter:
      return "router";
    case Role::kPrefill:
      return "prefill";
    case Role::kDecode:
      return "decode";
    case Role::kBoth:
      return "both";
  }
  return "unknown";
}

// One sample for each value of an enumeration, zeros too: a series is there before the first event.
template <class Reason, size_t N>
void by_reason(PrometheusText& out, const std::array<uint64_t, N>& counts) {
  for (size_t i = 0; i < N; ++i) out.sample(number(counts[i]), {{"reason", name_of(static_cast<Reason>(i))}});
}

void add_routing(PrometheusText& out, const ClusterNumbers& n) {
  out.family("cheetah_cluster_routed_total", "counter", "Routing decisions, by why this worker");
  by_reason<WorkerReason>(out, n.routed);
  out.family("cheetah_cluster_prefill_decisions_total", "counter",
      "Where prompts were to be computed, by why there");
  by_reason<PrefillReason>(out, n.prefills);
  out.family("cheetah_cluster_prefills_total", "counter", "Prompts, by where they were to be computed");
  out.sample(number(n.local_prefills), {{"where", "local"}});
  out.sample(number(n.remote_prefills), {{"where", "remote"}});
}

void add_admission(PrometheusText& out, const ClusterNumbers& n) {
  out.family("cheetah_cluster_accepted_total", "counter", "Requests accepted, by class");
  for (const auto& [name, count] : n.accepted) out.sample(number(count), {{"class", name}});
  out.family("cheetah_cluster_degraded_total", "counter",
      "Requests accepted with less than they asked for, by class");
  for (const auto& [name, count] : n.degraded) out.sample(number(count), {{"class", name}});
  out.family("cheetah_cluster_other_model_total", "counter",
      "Requests sent to a smaller model instead of the one they asked for, by class");
  for (const auto& [name, count] : n.other_model) out.sample(number(count), {{"class", name}});
  out.family("cheetah_cluster_own_place_total", "counter",
      "Requests accepted within their class's reservation, which go before all others, by class");
  for (const auto& [name, count] : n.own_place) out.sample(number(count), {{"class", name}});
  out.family("cheetah_cluster_given_back_total", "counter",
      "Places that classes took back from those who had borrowed them");
  out.sample(number(n.given_back));
  out.family("cheetah_cluster_rejected_total", "counter", "Requests refused, by class and reason");
  for (const auto& [name, counts] : n.rejects)
    for (size_t i = 1; i < counts.size(); ++i)
      out.sample(number(counts[i]), {{"class", name}, {"reason", name_of(static_cast<RejectReason>(i))}});
  out.family(
      "cheetah_cluster_breaker_state", "gauge", "Circuit breaker of a phase: 0 closed, 1 open, 2 half open");
  out.sample(number(n.prefill_breaker), {{"phase", "prefill"}});
  out.sample(number(n.decode_breaker), {{"phase", "decode"}});
}

void add_movement(PrometheusText& out, const ClusterNumbers& n) {
  const auto one = [&](std::string_view name, std::string_view type, std::string_view help, double value) {
    out.family(name, type, help);
    out.sample(value);
  };
  one("cheetah_cluster_prefill_queue_depth", "gauge", "Jobs waiting for a prefill worker",
      number(n.prefill_queue_depth));
  one("cheetah_cluster_kv_index_blocks", "gauge", "Cached blocks the router knows of",
      number(n.kv_index_blocks));
  one("cheetah_cluster_kv_index_unsure", "gauge", "Workers whose cached blocks have to be told again",
      number(n.kv_index_unsure));
}

void add_scaling(PrometheusText& out, const ClusterNumbers& n) {
  out.family(
      "cheetah_cluster_role_flips_total", "counter", "Workers that changed their role, by the new one");
  out.sample(number(n.flips_to_prefill), {{"to", "prefill"}});
  out.sample(number(n.flips_to_decode), {{"to", "decode"}});
  out.family(
      "cheetah_cluster_imbalance", "gauge", "Prefill demand by capacity over decode demand by capacity");
  out.sample(n.imbalance);
  if (n.desired_prefill || n.desired_decode)
    out.family("cheetah_cluster_desired_replicas", "gauge", "Replicas a pool should have");
  if (n.desired_prefill) out.sample(number(*n.desired_prefill), {{"pool", "prefill"}});
  if (n.desired_decode) out.sample(number(*n.desired_decode), {{"pool", "decode"}});
  if (n.predicted_prefill_per_s > 0 || n.predicted_decode_per_s > 0) {
    out.family("cheetah_cluster_predicted_tokens_per_second", "gauge",
        "Tokens that will come to a pool by the time a new replica would serve");
    out.sample(n.predicted_prefill_per_s, {{"pool", "prefill"}});
    out.sample(n.predicted_decode_per_s, {{"pool", "decode"}});
  }
  out.family("cheetah_cluster_config_reloads_total", "counter", "Policies read again, by outcome");
  out.sample(number(n.config_reloads), {{"outcome", "applied"}});
  out.sample(number(n.config_reload_failures), {{"outcome", "refused"}});
}

void add_workers(PrometheusText& out, const ClusterNumbers& n) {
  const auto gauge = [&](std::string_view name, std::string_view help, auto value) {
    out.family(name, "gauge", help);
    for (const WorkerGauges& w : n.workers)
      out.sample(value(w), {{"worker", w.name}, {"role", name_of(w.role)}});
  };
  gauge("cheetah_cluster_worker_ready", "Whether a worker takes requests",
      [](const WorkerGauges& w) { return w.ready ? 1.0 : 0.0; });
  gauge("cheetah_cluster_worker_running", "Choices a worker decodes or prefills",
      [](const WorkerGauges& w) { return number(w.load.running); });
  gauge("cheetah_cluster_worker_waiting", "Choices waiting at a worker",
      [](const WorkerGauges& w) { return number(w.load.waiting); });
  gauge("cheetah_cluster_worker_prefill_tokens", "Prompt tokens a worker has yet to compute",
      [](const WorkerGauges& w) { return number(w.load.prefill_tokens); });
  gauge("cheetah_cluster_worker_kv_free_ratio", "Share of a worker's KV pages that is free",
      [](const WorkerGauges& w) {
        return w.load.pages_total > 0 ? number(w.load.pages_free) / number(w.load.pages_total) : 0.0;
      });
  gauge("cheetah_cluster_worker_transfer_bytes_per_second",
      "Rate at which a worker's pages reached others lately; 0: none has",
      [](const WorkerGauges& w) { return w.load.transfer_bytes_per_s; });
}

}  // namespace

void ClusterNumbers::count(const RouteDecision& decision) {
  ++routed.at(static_cast<size_t>(decision.worker_reason));
  if (!decision.decode) return;
  ++prefills.at(static_cast<size_t>(decision.prefill_reason));
  ++(decision.prefill == PrefillMode::kRemote ? remote_prefills : local_prefills);
}

void ClusterNumbers::count(const AdmissionDecision& decision, const std::string& qos_class) {
  if (decision.verdict == Verdict::kReject) {
    ++rejects[qos_class].at(static_cast<size_t>(decision.reason));
    return;
  }
  if (decision.verdict == Verdict::kOtherModel) {
    ++other_model[qos_class];
    return;
  }
  ++(decision.verdict == Verdict::kDegrade ? degraded : accepted)[qos_class];
  if (decision.own_place) ++own_place[qos_class];
  for (const GiveBack& back : decision.give_back) given_back += static_cast<uint64_t>(back.places);
}

std::string metrics_text(const ClusterNumbers& numbers) {
  PrometheusText out;
  add_routing(out, numbers);
  add_admission(out, numbers);
  add_movement(out, numbers);
  add_scaling(out, numbers);
  add_workers(out, numbers);
  return out.text();
}

}  // namespace cheetah::cluster
