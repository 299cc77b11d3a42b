// SPDX-License-Identifier: MIT
#include "load/report.h"

namespace cheetah {
namespace {

Json distribution_json(const Distribution& d) {
  if (d.count == 0) return nullptr;
  return {{"count", d.count}, {"mean", d.mean}, {"min", d.min}, {"p50", d.p50}, {"p90", d.p90},
      {"p95", d.p95}, {"p99", d.p99}, {"max", d.max}};
}

Json number_or_null(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

Json latency_json(const LoadSummary& s) {
  return {{"ttft_s", distribution_json(s.ttft)}, {"ttft_from_sent_s", distribution_json(s.ttft_from_sent)},
      {"tpot_s", distribution_json(s.tpot)}, {"itl_s", distribution_json(s.itl)},
      {"e2e_s", distribution_json(s.e2e)}, {"e2e_from_sent_s", distribution_json(s.e2e_from_sent)}};
}

Json failures_json(const LoadSummary& s) {
  Json failures = Json::array();
  for (const auto& [kind, count] : s.failures)
    failures.push_back({{"kind", kind}, {"count", count}, {"first", s.first_failure.at(kind)}});
  return failures;
}

Json request_json(const RequestRecord& r) {
  Json json = {{"scheduled_s", r.scheduled_s}, {"sent_s", r.sent_s}, {"done_s", r.done_s}};
  if (!r.ok()) {
    json["failure"] = name_of(r.failure);
    return json;
  }
  json["first_token_s"] = r.first_s;
  json["last_token_s"] = r.last_s;
  json["output_tokens"] = r.tokens();
  json["events"] = r.events;
  json["prompt_tokens"] = r.prompt_tokens ? Json(*r.prompt_tokens) : Json(nullptr);
  json["cached_tokens"] = r.cached_tokens;
  return json;
}

Json step_json(const LoadStep& step) {
  const LoadSummary& s = step.summary;
  Json json = {{"rate", number_or_null(step.rate)},
      {"concurrency", step.concurrency > 0 ? Json(step.concurrency) : Json(nullptr)},
      {"requests", s.requests}, {"completed", s.completed}, {"good", s.good}, {"interrupted", s.interrupted},
      {"duration_s", s.duration_s}, {"offered_per_s", number_or_null(s.offered_rate)},
      {"requests_per_s", s.request_rate}, {"output_tokens_per_s", s.output_rate},
      {"tokens_per_s", s.total_rate}, {"goodput_per_s", s.goodput}, {"attainment", s.attainment},
      {"mean_in_flight", s.mean_in_flight}, {"latency", latency_json(s)},
      {"tokens",
          {{"prompt", s.prompt_tokens}, {"cached", s.cached_tokens}, {"output", s.output_tokens},
              {"asked", s.asked_tokens}, {"events", s.events}, {"answers_without_usage", s.without_usage}}},
      {"client", {{"cpu_share", step.client.cpu_share}, {"send_lag_s", distribution_json(s.send_lag)}}},
      {"failures", failures_json(s)}, {"warnings", warnings_of(s, step.client)}};
  json["records"] = Json::array();
  for (const RequestRecord& record : step.records) json["records"].push_back(request_json(record));
  return json;
}

}  // namespace

Json report_json(const LoadReport& report) {
  Json json = {{"schema_version", 1}, {"kind", "bench-serve"}, {"provenance", report.provenance},
      {"setup", report.setup},
      {"slo",
          {{"ttft_s", number_or_null(report.slo.ttft_s)}, {"tpot_s", number_or_null(report.slo.tpot_s)}}}};
  json["steps"] = Json::array();
  for (const LoadStep& step : report.steps) json["steps"].push_back(step_json(step));
  const auto knee = report.knee();
  if (report.is_sweep) json["knee_per_s"] = knee ? Json(*report.steps[*knee].rate) : Json(nullptr);
  for (const Definition& definition : definitions()) json["definitions"][definition.name] = definition.text;
  return json;
}

}  // namespace cheetah
