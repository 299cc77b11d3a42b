// SPDX-License-Identifier: MIT
#include "serve/metrics.h"

#include <unistd.h>

#include <fstream>

#include "observe/prometheus_text.h"
#include "serve/routes.h"

namespace cheetah {
namespace {

using Labels = PrometheusText::Labels;

double count(uint64_t value) { return static_cast<double>(value); }
double count(int64_t value) { return static_cast<double>(value); }

// The names dashboards and autoscalers written for vLLM look for.
void add_engine_counters(PrometheusText& out, const EngineStats& s, const Labels& model) {
  out.gauge("vllm:num_requests_running", "Sequences in prefill or decode", count(s.running), model);
  out.gauge("vllm:num_requests_waiting", "Requests waiting to be scheduled", count(s.waiting), model);
  out.gauge("cheetah_sequences_paused", "Sequences paused until their client reads", count(s.paused), model);
  out.gauge("vllm:num_requests_swapped", "Sequences whose pages are in host memory", count(s.swapped), model);
  out.gauge("vllm:kv_cache_usage_perc", "Share of KV pages held by requests, 0 to 1", s.kv_occupancy, model);
  out.counter("vllm:prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache",
      count(s.prefix_queries), model);
  out.counter(
      "vllm:prefix_cache_hits_total", "Prompt tokens found in the prefix cache", count(s.prefix_hits), model);
  out.counter("vllm:prompt_tokens_total", "Prompt tokens processed", count(s.prompt_tokens), model);
  out.counter("vllm:prompt_tokens_cached_total", "Prompt tokens taken from the prefix cache",
      count(s.cached_prompt_tokens), model);
  out.counter("vllm:generation_tokens_total", "Tokens generated", count(s.generated_tokens), model);
  out.counter("vllm:num_preemptions_total", "Sequences preempted", count(s.preemptions), model);
  out.family("vllm:request_success_total", "counter", "Requests finished, by reason");
  const std::pair<std::string_view, uint64_t> reasons[] = {{"stop", s.finished_stop},
      {"length", s.finished_length}, {"abort", s.finished_cancelled}, {"deadline", s.finished_deadline},
      {"error", s.finished_error}};
  for (const auto& [reason, value] : reasons) {
    Labels labels = model;
    labels.push_back({"finished_reason", reason});
    out.sample(count(value), labels);
  }
}

void add_drafts(PrometheusText& out, const DraftStats& drafts, const Labels& model) {
  out.counter("vllm:spec_decode_num_drafts_total", "Drafts verified", count(drafts.drafts), model);
  out.counter(
      "vllm:spec_decode_num_draft_tokens_total", "Tokens of those drafts", count(drafts.tokens), model);
  out.counter("vllm:spec_decode_num_accepted_tokens_total", "Drafted tokens that were the model's own",
      count(drafts.accepted), model);
  out.family("vllm:spec_decode_num_accepted_tokens_per_pos_total", "counter",
      "Drafted tokens that were the model's own, by their place in the draft");
  for (size_t i = 0; i < drafts.accepted_at.size(); ++i)
    out.sample(count(drafts.accepted_at[i]), {model[0], {"position", std::to_string(i)}});
}

void add_engine_histograms(PrometheusText& out, const EngineStats& s, const Labels& model) {
  out.histogram("vllm:time_to_first_token_seconds", "From arrival to the first token", s.ttft_s, model);
  out.histogram("vllm:inter_token_latency_seconds", "Between two tokens of a sequence", s.itl_s, model);
  out.histogram("vllm:request_time_per_output_token_seconds",
      "Mean time per token after the first, per request", s.tpot_s, model);
  out.histogram("vllm:e2e_request_latency_seconds", "From arrival to the last token", s.e2e_s, model);
  out.histogram("vllm:request_queue_time_seconds", "From arrival to scheduling", s.queue_s, model);
  out.histogram(
      "vllm:request_prefill_time_seconds", "From scheduling to the first token", s.prefill_s, model);
  out.histogram("vllm:request_decode_time_seconds", "From the first token to the last", s.decode_s, model);
  out.histogram("vllm:iteration_tokens_total", "Tokens computed per step", s.step_tokens, model);
  out.histogram("vllm:request_prompt_tokens", "Prompt tokens per request", s.prompt_lengths, model);
  out.histogram("vllm:request_generation_tokens", "Generated tokens per sequence", s.output_lengths, model);
}

void add_cheetah_engine(PrometheusText& out, const ServerNumbers& n, const Labels& model) {
  const EngineStats& s = n.engine;
  out.counter("cheetah_engine_steps_total", "Steps the engine has taken", count(s.steps), model);
  out.counter(
      "cheetah_engine_failed_steps_total", "Steps that failed on the device", count(s.failed_steps), model);
  out.counter("cheetah_engine_nonfinite_outputs_total",
      "Requests ended because the model's output was not finite", count(s.nonfinite_outputs), model);
  out.gauge("cheetah_engine_last_step_seconds", "Duration of the last step", s.last_step_ms / 1e3, model);
  out.gauge("cheetah_engine_batch_tokens", "Tokens in the last step", count(s.last_batch_tokens), model);
  out.gauge(
      "cheetah_engine_batch_sequences", "Sequences in the last step", count(s.last_batch_sequences), model);
  out.gauge("cheetah_engine_drain_tokens_per_second", "Rate at which queued work completes",
      s.drain_tokens_per_s, model);
  out.family("cheetah_kv_pages", "gauge", "Pages of the KV cache, by state");
  const std::pair<std::string_view, int64_t> states[] = {
      {"used", s.pages_total - s.pages_free - s.pages_cached}, {"cached", s.pages_cached},
      {"free", s.pages_free}};
  for (const auto& [state, pages] : states) out.sample(count(pages), {model[0], {"state", state}});
  out.gauge("cheetah_kv_fragmentation_ratio", "Share of token slots in used pages that hold no token",
      s.fragmentation, model);
  out.family("cheetah_config_info", "gauge", "Engine limits, as labels; always 1");
  const std::string context = std::to_string(n.config.max_context),
                    sequences = std::to_string(n.config.max_sequences),
                    page = std::to_string(n.config.page_tokens), queue = std::to_string(n.config.max_queue);
  out.sample(1, {model[0], {"max_context", context}, {"max_sequences", sequences}, {"page_tokens", page},
                    {"max_queue", queue}});
}

void add_graphs(PrometheusText& out, const GraphUse& graphs, const Labels& model) {
  out.counter(
      "cheetah_graph_captures_total", "Decode steps recorded as a CUDA graph", count(graphs.recorded), model);
  out.counter("cheetah_graph_hits_total", "Decode steps that replayed a recorded CUDA graph",
      count(graphs.launched - graphs.recorded), model);
  out.counter(
      "cheetah_graph_rows_total", "Rows of the decode steps that ran as a graph", count(graphs.rows), model);
  out.counter("cheetah_graph_padded_rows_total", "Padding rows of the decode steps that ran as a graph",
      count(graphs.padded_rows), model);
}

void add_http(PrometheusText& out, const ServerCounters& c) {
  constexpr std::string_view kClasses[] = {"2xx", "3xx", "4xx", "5xx"};
  out.family("cheetah_http_responses_total", "counter", "Responses, by route and status class");
  const auto all = routes();
  for (size_t r = 0; r <= all.size(); ++r) {
    if (r > 0 && r < all.size() && all[r].path == all[r - 1].path)
      continue;  // counted with the first of its path
    for (size_t k = 0; k < ServerCounters::kStatusClasses; ++k) {
      const bool known = r < all.size();
      const auto& row = c.responses[known ? r : ServerCounters::kMaxRoutes - 1];
      out.sample(count(row[k].load()), {{"route", known ? all[r].path : "other"}, {"code", kClasses[k]}});
    }
  }
  out.family("cheetah_requests_rejected_total", "counter",
      "Requests refused before they reached the engine, by reason");
  for (size_t i = 0; i < kRejectionNames.size(); ++i)
    out.sample(count(c.rejections[i].load()), {{"reason", kRejectionNames[i]}});
  out.counter("cheetah_client_disconnects_total",
      "Clients that disconnected before their response was complete", count(c.disconnects.load()));
  out.counter("cheetah_stream_pauses_total", "Times a stream was paused because its client read too slowly",
      count(c.paused_streams.load()));
  out.counter("cheetah_http_received_bytes_total", "Bytes received in requests", count(c.bytes_in.load()));
  out.counter("cheetah_http_sent_bytes_total", "Bytes sent in responses", count(c.bytes_out.load()));
  out.gauge("cheetah_http_connections", "Open connections", count(c.connections.load()));
  out.gauge("cheetah_requests_parsing", "Requests being parsed", count(c.parsing));
  out.gauge("cheetah_requests_in_flight", "Requests in the engine, waiting or running",
      count(int64_t{c.in_flight}));
}

Json histogram_json(const Histogram& h) {
  return {{"bounds", h.bounds}, {"counts", h.counts}, {"sum", h.sum}, {"count", h.count}};
}

}  // namespace

int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  int64_t size = 0, resident = 0;
  file >> size >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

std::string metrics_text(const ServerNumbers& n, const ServerCounters& counters) {
  PrometheusText out;
  const Labels model = {{"model_name", n.model}};
  add_engine_counters(out, n.engine, model);
  add_engine_histograms(out, n.engine, model);
  add_cheetah_engine(out, n, model);
  add_drafts(out, n.engine.drafts, model);
  add_graphs(out, n.engine.graphs, model);
  add_http(out, counters);
  out.gauge("cheetah_ready", "1 when the server accepts requests", n.ready ? 1 : 0);
  out.gauge("cheetah_host_rss_bytes", "Resident memory of this process", count(n.rss_bytes));
  out.family("cheetah_build_info", "gauge", "Version, as a label; always 1");
  out.sample(1, {{"version", n.version}});
  out.gauge("process_start_time_seconds", "Start time of the process, Unix seconds", n.start_unix_s);
  return out.text();
}

Json stats_json(const ServerNumbers& n, const ServerCounters& c) {
  const EngineStats& s = n.engine;
  Json json = {{"schema_version", 1}, {"model", n.model}, {"version", n.version}, {"ready", n.ready},
      {"uptime_s", n.uptime_s}, {"rss_bytes", n.rss_bytes}, {"max_context", n.config.max_context},
      {"max_sequences", n.config.max_sequences}, {"max_queue", n.config.max_queue},
      {"page_tokens", n.config.page_tokens}, {"running", s.running}, {"waiting", s.waiting},
      {"swapped", s.swapped}, {"paused", s.paused}, {"pages_total", s.pages_total},
      {"pages_free", s.pages_free}, {"pages_cached", s.pages_cached}, {"kv_occupancy", s.kv_occupancy},
      {"fragmentation", s.fragmentation}, {"steps", s.steps}, {"prompt_tokens", s.prompt_tokens},
      {"cached_prompt_tokens", s.cached_prompt_tokens}, {"generated_tokens", s.generated_tokens},
      {"prefix_queries", s.prefix_queries}, {"prefix_hits", s.prefix_hits}, {"preemptions", s.preemptions},
      {"finished_stop", s.finished_stop}, {"finished_length", s.finished_length},
      {"finished_cancelled", s.finished_cancelled}, {"finished_deadline", s.finished_deadline},
      {"finished_error", s.finished_error}, {"drain_tokens_per_s", s.drain_tokens_per_s},
      {"last_step_ms", s.last_step_ms}, {"last_batch_tokens", s.last_batch_tokens},
      {"last_batch_sequences", s.last_batch_sequences},
      {"drafts", {{"drafts", s.drafts.drafts}, {"tokens", s.drafts.tokens}, {"accepted", s.drafts.accepted}}},
      {"graphs", {{"captures", s.graphs.recorded}, {"hits", s.graphs.launched - s.graphs.recorded},
                     {"rows", s.graphs.rows}, {"padded_rows", s.graphs.padded_rows}}},
      {"connections", c.connections.load()}, {"in_flight", int64_t{c.in_flight}},
      {"parsing", int64_t{c.parsing}}, {"disconnects", c.disconnects.load()},
      {"histograms",
          {{"ttft_s", histogram_json(s.ttft_s)}, {"itl_s", histogram_json(s.itl_s)},
              {"tpot_s", histogram_json(s.tpot_s)}, {"e2e_s", histogram_json(s.e2e_s)},
              {"queue_s", histogram_json(s.queue_s)}, {"prefill_s", histogram_json(s.prefill_s)},
              {"decode_s", histogram_json(s.decode_s)}, {"step_tokens", histogram_json(s.step_tokens)},
              {"prompt_lengths", histogram_json(s.prompt_lengths)},
              {"output_lengths", histogram_json(s.output_lengths)}}}};
  if (n.loading) json["loading"] = loading_json(n.loading->first, n.loading->second);
  if (!n.cluster.empty()) json["cluster"] = parse_json(n.cluster, "the cluster's state");
  return json;
}

Json loading_json(int64_t read_bytes, int64_t total_bytes) {
  const double share =
      total_bytes > 0 ? static_cast<double>(read_bytes) / static_cast<double>(total_bytes) : 0;
  return {{"read_bytes", read_bytes}, {"total_bytes", total_bytes}, {"share", share}};
}

Json decision_json(const Decision& d) {
  Json json = {{"time_s", d.time_s}, {"step", d.step}, {"kind", name_of(d.kind)}, {"text", what_of(d)},
      {"tokens", d.tokens}, {"free_pages", d.free_pages}};
  if (d.kind != DecisionKind::kForked) json["choice"] = d.choice;
  if (d.kind == DecisionKind::kAdmitted) json["cached_tokens"] = d.cached;
  if (d.kind == DecisionKind::kPrefilled) {
    json["chunk_tokens"] = d.chunk;
    json["step_tokens"] = d.step_tokens;
    json["step_sequences"] = d.step_sequences;
    json["step_ms"] = d.step_s * 1e3;
  }
  return json;
}

}  // namespace cheetah
