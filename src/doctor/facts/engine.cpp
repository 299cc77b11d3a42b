// SPDX-License-Identifier: MIT
#include "doctor/facts/engine.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/format.h"
#include "doctor/text.h"

namespace cheetah::doctor {
namespace {

struct Alias {
  std::string_view ours;
  std::vector<std::string> theirs;  // cheetah speaks vLLM's names; then SGLang, TensorRT-LLM, llama.cpp, DCGM
};

const std::vector<Alias>& aliases() {
  static const std::vector<Alias> kAliases = {
      {"running", {"vllm:num_requests_running", "sglang:num_running_reqs", "trtllm_num_requests_running",
                      "llamacpp:requests_processing", "nv_trt_llm_request_metrics"}},
      {"waiting", {"vllm:num_requests_waiting", "sglang:num_queue_reqs", "trtllm_num_requests_waiting",
                      "llamacpp:requests_deferred"}},
      {"kv_usage", {"vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "sglang:token_usage",
                       "trtllm_kv_cache_utilization", "llamacpp:kv_cache_usage_ratio"}},
      {"preemptions", {"vllm:num_preemptions_total", "vllm:num_preemptions",
                          "sglang:num_retracted_reqs_total", "sglang:num_retracted_requests_total"}},
      {"prefix_queries", {"vllm:prefix_cache_queries_total", "vllm:prefix_cache_queries",
                             "vllm:gpu_prefix_cache_queries_total", "sglang:prompt_tokens_total"}},
      {"prefix_hits", {"vllm:prefix_cache_hits_total", "vllm:prefix_cache_hits",
                          "vllm:gpu_prefix_cache_hits_total", "sglang:cached_tokens_total"}},
      {"requests", {"vllm:request_success_total", "sglang:num_requests_total", "trtllm_request_success_total",
                       "trtllm:request_success_total"}},
      {"aborted", {"sglang:num_aborted_requests_total", "cheetah_client_disconnects_total"}},
      {"rejected", {"cheetah_requests_rejected_total"}},
      {"http", {"cheetah_http_responses_total", "http_requests_total"}},
      {"prompt_tokens",
          {"vllm:prompt_tokens_total", "sglang:prompt_tokens_total", "llamacpp:prompt_tokens_total"}},
      {"tokens", {"vllm:generation_tokens_total", "sglang:generation_tokens_total",
                     "llamacpp:tokens_predicted_total"}},
      {"ttft", {"vllm:time_to_first_token_seconds", "sglang:time_to_first_token_seconds",
                   "trtllm_time_to_first_token_seconds", "trtllm:time_to_first_token_seconds"}},
      {"itl", {"vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds",
                  "sglang:inter_token_latency_seconds", "sglang:time_per_output_token_seconds",
                  "trtllm_time_per_output_token_seconds", "trtllm:time_per_output_token_seconds"}},
      {"queue_time", {"vllm:request_queue_time_seconds", "sglang:queue_time_seconds",
                         "trtllm_request_queue_time_seconds", "trtllm:request_queue_time_seconds"}},
      {"e2e", {"vllm:e2e_request_latency_seconds", "sglang:e2e_request_latency_seconds",
                  "trtllm_e2e_request_latency_seconds", "trtllm:e2e_request_latency_seconds"}},
      {"drafted", {"vllm:spec_decode_num_draft_tokens_total"}},
      {"accepted", {"vllm:spec_decode_num_accepted_tokens_total"}},
      {"acceptance", {"sglang:spec_accept_rate"}},
      {"gpu_util", {"DCGM_FI_DEV_GPU_UTIL"}},
      {"sm_active", {"DCGM_FI_PROF_SM_ACTIVE"}},
      {"tensor_active", {"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"}},
      {"gpu_used", {"DCGM_FI_DEV_FB_USED"}},
      {"gpu_free", {"DCGM_FI_DEV_FB_FREE"}},
      {"gpu_temperature", {"DCGM_FI_DEV_GPU_TEMP"}},
      {"xid", {"DCGM_FI_DEV_XID_ERRORS"}},
      {"ecc", {"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL"}},
      {"pcie_replays", {"DCGM_FI_DEV_PCIE_REPLAY_COUNTER"}},
      {"nvlink_errors",
          {"DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL"}},
      {"thermal_violation", {"DCGM_FI_DEV_THERMAL_VIOLATION"}},
      {"cpu_seconds", {"process_cpu_seconds_total"}},
      {"rss", {"process_resident_memory_bytes", "cheetah_host_rss_bytes"}},
      {"data_wait", {"train_data_wait_seconds_total"}},
      {"step_time", {"train_step_seconds_total"}},
      {"expert_tokens", {"vllm:expert_tokens_total", "sglang:expert_tokens_total"}},
  };
  return kAliases;
}

std::string shown_names(std::string_view what) {
  for (const Alias& alias : aliases())
    if (alias.ours == what) return alias.theirs.front();
  return std::string(what);
}

// The engine's name for `what` + suffix, as far as this engine has one.
const std::vector<Series>* series_of(
    const Metrics& metrics, std::string_view what, const std::string& suffix = "") {
  for (const Alias& alias : aliases()) {
    if (alias.ours != what) continue;
    for (const std::string& name : alias.theirs)
      if (const auto* found = metrics.find(name + suffix)) return found;
  }
  return nullptr;
}

std::optional<double> sum_of(const Metrics& metrics, std::string_view what, const std::string& suffix = "") {
  const auto* series = series_of(metrics, what, suffix);
  if (series == nullptr) return std::nullopt;
  double sum = 0;
  for (const Series& one : *series) sum += one.value;
  return sum;
}

// The same series in an earlier reading, by its labels.
const Series* match(const std::vector<Series>* series, const Series& one) {
  if (series == nullptr) return nullptr;
  const auto found = std::find_if(
      series->begin(), series->end(), [&](const Series& other) { return other.labels == one.labels; });
  return found == series->end() ? nullptr : &*found;
}

// What one counter added: from zero again when its process was restarted in between.
double added_to(const Series& now, const Series* before) {
  if (before == nullptr) return now.value;
  return now.value >= before->value ? now.value - before->value : now.value;
}

std::string name_of_series(const Series& series) {
  for (const char* label :
      {"gpu", "device", "engine", "replica", "instance", "pod", "expert", "model_name", "model"})
    if (const auto found = series.labels.find(label); found != series.labels.end())
      return format("{} {}", label, found->second);
  return "the engine";
}

Value<double> no_metric(const std::string& source, std::string_view what) {
  return Value<double>::absent(source, format("the engine does not tell {}", shown_names(what)));
}

std::map<double, double> buckets_of(const Metrics& metrics, std::string_view what) {
  std::map<double, double> buckets;
  const auto* series = series_of(metrics, what, "_bucket");
  if (series == nullptr) return buckets;
  for (const Series& one : *series) {
    const auto le = one.labels.find("le");
    if (le == one.labels.end()) continue;
    const auto bound = to_number(le->second);
    buckets[bound ? *bound : std::numeric_limits<double>::infinity()] += one.value;
  }
  return buckets;
}

}  // namespace

Value<double> EngineFacts::gauge(std::string_view what) const {
  const auto value = sum_of(now, what);
  return value ? Value<double>(*value, source) : no_metric(source, what);
}

Value<double> EngineFacts::counter(std::string_view what) const {
  if (series_of(now, what) == nullptr) return no_metric(source, what);
  double sum = 0;
  for (const auto& [name, added] : each_added(what)) sum += added;
  return {sum, source};
}

Value<double> EngineFacts::most(std::string_view what) const {
  const auto values = each(what);
  return values.empty() ? no_metric(source, what)
                        : Value<double>(*std::max_element(values.begin(), values.end()), source);
}

std::vector<std::pair<std::string, double>> EngineFacts::each_added(std::string_view what) const {
  std::vector<std::pair<std::string, double>> all;
  if (const auto* series = series_of(now, what))
    for (const Series& one : *series)
      all.emplace_back(
          name_of_series(one), added_to(one, before ? match(series_of(*before, what), one) : nullptr));
  return all;
}

std::vector<std::pair<std::string, double>> EngineFacts::each_named(std::string_view what) const {
  std::vector<std::pair<std::string, double>> all;
  if (const auto* series = series_of(now, what))
    for (const Series& one : *series) all.emplace_back(name_of_series(one), one.value);
  return all;
}

Value<double> EngineFacts::rate(std::string_view what) const {
  if (!before || interval_s <= 0) return Value<double>::absent(source, "one reading only: a rate needs two");
  const auto added = counter(what);
  return added ? Value<double>(*added / interval_s, source) : added;
}

Value<double> EngineFacts::quantile(std::string_view what, double q) const {
  auto buckets = buckets_of(now, what);
  if (buckets.empty()) return no_metric(source, what);
  if (before)
    for (const auto& [bound, count] : buckets_of(*before, what)) buckets[bound] -= count;
  const double total = buckets.rbegin()->second;
  if (total < 100)
    return Value<double>::absent(
        source, format("only {:.0f} observations: 100 are needed", std::max(0.0, total)));
  double low = 0, below = 0;
  for (const auto& [bound, count] : buckets) {
    if (count >= q * total) {
      if (std::isinf(bound)) return {low, source};
      return {low + (bound - low) * (q * total - below) / std::max(count - below, 1e-9), source};
    }
    low = bound;
    below = count;
  }
  return {low, source};
}

Value<double> EngineFacts::mean(std::string_view what) const {
  const auto sum = sum_of(now, what, "_sum"), count = sum_of(now, what, "_count");
  if (!sum || !count) return no_metric(source, what);
  const double added = *sum - (before ? sum_of(*before, what, "_sum").value_or(0) : 0);
  const double observations = *count - (before ? sum_of(*before, what, "_count").value_or(0) : 0);
  if (observations <= 0) return Value<double>::absent(source, "nothing was observed");
  return {added / observations, source};
}

Value<double> EngineFacts::share(
    std::string_view what, std::string_view label, std::vector<std::string> values) const {
  const auto* series = series_of(now, what);
  if (series == nullptr) return no_metric(source, what);
  double chosen_sum = 0, all = 0;
  bool labelled = false;
  for (const Series& one : *series) {
    const auto found = one.labels.find(std::string(label));
    // By change: errors of last week are not today's, and today's do not drown in a million good answers.
    const double added = added_to(one, before ? match(series_of(*before, what), one) : nullptr);
    all += added;
    if (found == one.labels.end()) continue;
    labelled = true;
    for (const std::string& value : values)
      if (starts_with(found->second, value)) chosen_sum += added;
  }
  if (!labelled || all < (before ? 20 : 100))
    return Value<double>::absent(
        source, format("{} has no {} or too few requests", shown_names(what), label));
  return {chosen_sum / all, source};
}

std::vector<double> EngineFacts::each(std::string_view what) const {
  std::vector<double> values;
  if (const auto* series = series_of(now, what))
    for (const Series& one : *series) values.push_back(one.value);
  return values;
}

}  // namespace cheetah::doctor
