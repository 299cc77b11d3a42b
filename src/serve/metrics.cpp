#include "serve/metrics.h"

#include <unistd.h>

#include <cmath>
#include <fstream>

#include "base/format.h"
#include "serve/routes.h"

namespace cheetah {
namespace {

std::string number(double value) {
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return format("{}", value);
}

std::string escaped(std::string_view value) {
  std::string out;
  for (const char c : value) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n')
      out += "\\n";
    else
      out += c;
  }
  return out;
}

using Labels = PrometheusText::Labels;

double count(uint64_t value) { return static_cast<double>(value); }
double count(int64_t value) { return static_cast<double>(value); }

// The names dashboards and autoscalers written for vLLM look for.
void add_engine_counters(PrometheusText& out, const EngineStats& s, const Labels& model) {
  const auto one = [&](std::string_view name, std::string_view type, std::string_view help, double value) {
    out.family(name, type, help);
    out.sample(value, model);
  };
  one("vllm:num_requests_running", "gauge", "Sequences being decoded or prefilled", count(s.running));
  one("vllm:num_requests_waiting", "gauge", "Requests waiting for a place in the batch", count(s.waiting));
  one("cheetah_sequences_paused", "gauge", "Sequences that wait for their client to read", count(s.paused));
  one("vllm:num_requests_swapped", "gauge", "Sequences whose pages lie in host memory", count(s.swapped));
  one("vllm:kv_cache_usage_perc", "gauge", "Share of KV pages held by requests, 0 to 1", s.kv_occupancy);
  one("vllm:prefix_cache_queries_total", "counter", "Prompt tokens looked up in the prefix cache",
      count(s.prefix_queries));
  one("vllm:prefix_cache_hits_total", "counter", "Prompt tokens found in the prefix cache",
      count(s.prefix_hits));
  one("vllm:prompt_tokens_total", "counter", "Prompt tokens of finished prefills", count(s.prompt_tokens));
  one("vllm:prompt_tokens_cached_total", "counter", "Prompt tokens that were not computed",
      count(s.cached_prompt_tokens));
  one("vllm:generation_tokens_total", "counter", "Tokens generated", count(s.generated_tokens));
  one("vllm:num_preemptions_total", "counter", "Sequences that lost their pages to others",
      count(s.preemptions));
  out.family("vllm:request_success_total", "counter", "Requests finished, by reason");
  const std::pair<std::string_view, uint64_t> reasons[] = {{"stop", s.finished_stop},
                                                           {"length", s.finished_length},
                                                           {"abort", s.finished_cancelled},
                                                           {"deadline", s.finished_deadline},
                                                           {"error", s.finished_error}};
  for (const auto& [reason, value] : reasons) {
    Labels labels = model;
    labels.push_back({"finished_reason", reason});
    out.sample(count(value), labels);
  }
}

void add_engine_histograms(PrometheusText& out, const EngineStats& s, const Labels& model) {
  out.histogram("vllm:time_to_first_token_seconds", "From arrival to the first token", s.ttft_s, model);
  out.histogram("vllm:inter_token_latency_seconds", "Between two tokens of one sequence", s.itl_s, model);
  out.histogram("vllm:request_time_per_output_token_seconds", "Mean time a token after the first, a request",
                s.tpot_s, model);
  out.histogram("vllm:e2e_request_latency_seconds", "From arrival to the last token", s.e2e_s, model);
  out.histogram("vllm:request_queue_time_seconds", "From arrival to a place in the batch", s.queue_s, model);
  out.histogram("vllm:request_prefill_time_seconds", "From the place in the batch to the first token",
                s.prefill_s, model);
  out.histogram("vllm:request_decode_time_seconds", "From the first token to the last", s.decode_s, model);
  out.histogram("vllm:iteration_tokens_total", "Tokens computed a step", s.step_tokens, model);
  out.histogram("vllm:request_prompt_tokens", "Prompt tokens a request", s.prompt_lengths, model);
  out.histogram("vllm:request_generation_tokens", "Generated tokens a sequence", s.output_lengths, model);
}

void add_cheetah_engine(PrometheusText& out, const ServerNumbers& n, const Labels& model) {
  const EngineStats& s = n.engine;
  out.family("cheetah_engine_steps_total", "counter", "Steps the engine has taken");
  out.sample(count(s.steps), model);
  out.family("cheetah_engine_last_step_seconds", "gauge", "How long the last step took");
  out.sample(s.last_step_ms / 1e3, model);
  out.family("cheetah_engine_batch_tokens", "gauge", "Tokens in the last step");
  out.sample(count(s.last_batch_tokens), model);
  out.family("cheetah_engine_batch_sequences", "gauge", "Sequences in the last step");
  out.sample(count(s.last_batch_sequences), model);
  out.family("cheetah_engine_drain_tokens_per_second", "gauge", "Rate at which work leaves the queue");
  out.sample(s.drain_tokens_per_s, model);
  out.family("cheetah_kv_pages", "gauge", "Pages of the KV cache, by state");
  const std::pair<std::string_view, int64_t> states[] = {
      {"used", s.pages_total - s.pages_free - s.pages_cached},
      {"cached", s.pages_cached},
      {"free", s.pages_free}};
  for (const auto& [state, pages] : states) out.sample(count(pages), {model[0], {"state", state}});
  out.family("cheetah_kv_fragmentation_ratio", "gauge", "Share of the places in held pages without a token");
  out.sample(s.fragmentation, model);
  out.family("cheetah_config_info", "gauge", "Limits of the engine, as labels; always 1");
  const std::string context = std::to_string(n.config.max_context),
                    sequences = std::to_string(n.config.max_sequences),
                    page = std::to_string(n.config.page_tokens), queue = std::to_string(n.config.max_queue);
  out.sample(1, {model[0],
                 {"max_context", context},
                 {"max_sequences", sequences},
                 {"page_tokens", page},
                 {"max_queue", queue}});
}

void add_graphs(PrometheusText& out, const GraphUse& graphs, const Labels& model) {
  const auto one = [&](std::string_view name, std::string_view help, int64_t value) {
    out.family(name, "counter", help);
    out.sample(count(value), model);
  };
  one("cheetah_graph_captures_total", "Decode steps recorded as a graph", graphs.recorded);
  one("cheetah_graph_hits_total", "Decode steps that replayed a recorded graph",
      graphs.launched - graphs.recorded);
  one("cheetah_graph_rows_total", "Rows of decode steps that have a graph's shape", graphs.rows);
  one("cheetah_graph_padded_rows_total", "Rows that only filled those steps up to the shape",
      graphs.padded_rows);
}

void add_http(PrometheusText& out, const ServerCounters& c) {
  constexpr std::string_view kClasses[] = {"2xx", "3xx", "4xx", "5xx"};
  out.family("cheetah_http_responses_total", "counter", "Responses, by route and class of status");
  const auto all = routes();
  for (size_t r = 0; r <= all.size(); ++r)
    for (size_t k = 0; k < ServerCounters::kStatusClasses; ++k) {
      const bool known = r < all.size();
      const auto& row = c.responses[known ? r : ServerCounters::kMaxRoutes - 1];
      out.sample(count(row[k].load()), {{"route", known ? all[r].path : "other"}, {"code", kClasses[k]}});
    }
  out.family("cheetah_requests_rejected_total", "counter", "Requests refused before the engine saw them");
  for (size_t i = 0; i < kRejectionNames.size(); ++i)
    out.sample(count(c.rejections[i].load()), {{"reason", kRejectionNames[i]}});
  const auto one = [&](std::string_view name, std::string_view type, std::string_view help, double value) {
    out.family(name, type, help);
    out.sample(value);
  };
  one("cheetah_client_disconnects_total", "counter", "Clients that left before their answer was complete",
      count(c.disconnects.load()));
  one("cheetah_stream_pauses_total", "counter", "Times that the engine waited for a stream's slow reader",
      count(c.paused_streams.load()));
  one("cheetah_http_received_bytes_total", "counter", "Bytes of requests", count(c.bytes_in.load()));
  one("cheetah_http_sent_bytes_total", "counter", "Bytes of responses", count(c.bytes_out.load()));
  one("cheetah_http_connections", "gauge", "Open connections", count(c.connections.load()));
  one("cheetah_requests_parsing", "gauge", "Bodies being parsed", count(c.parsing.load()));
  one("cheetah_requests_in_flight", "gauge", "Requests the engine has not finished",
      count(c.in_flight.load()));
}

Json histogram_json(const Histogram& h) {
  return {{"bounds", h.bounds}, {"counts", h.counts}, {"sum", h.sum}, {"count", h.count}};
}

}  // namespace

void PrometheusText::family(std::string_view name, std::string_view type, std::string_view help) {
  name_ = name;
  text_ += format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

void PrometheusText::sample(double value, const Labels& labels, std::string_view suffix) {
  text_ += name_;
  text_ += suffix;
  std::string inside;
  for (const auto& [label, text] : labels)
    inside += format("{}{}=\"{}\"", inside.empty() ? "" : ",", label, escaped(text));
  if (!inside.empty()) text_ += "{" + inside + "}";
  text_ += format(" {}\n", number(value));
}

void PrometheusText::histogram(std::string_view name, std::string_view help, const Histogram& values,
                               const Labels& labels) {
  family(name, "histogram", help);
  uint64_t below = 0;
  for (size_t i = 0; i < values.counts.size(); ++i) {
    below += values.counts[i];
    const std::string bound = number(i < values.bounds.size() ? values.bounds[i] : INFINITY);
    Labels all = labels;
    all.push_back({"le", bound});
    sample(count(below), all, "_bucket");
  }
  sample(values.sum, labels, "_sum");
  sample(count(values.count), labels, "_count");
}

EngineStats empty_stats() {
  EngineStats stats;
  for (Histogram* h : {&stats.ttft_s, &stats.itl_s, &stats.tpot_s, &stats.e2e_s, &stats.queue_s,
                       &stats.prefill_s, &stats.decode_s})
    *h = Histogram(latency_bounds());
  stats.step_tokens = stats.prompt_lengths = stats.output_lengths = Histogram(token_bounds(4096));
  return stats;
}

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
  add_graphs(out, n.engine.graphs, model);
  add_http(out, counters);
  out.family("cheetah_ready", "gauge", "1 when requests are taken");
  out.sample(n.ready ? 1 : 0);
  out.family("cheetah_host_rss_bytes", "gauge", "Memory of this process");
  out.sample(count(n.rss_bytes));
  out.family("cheetah_build_info", "gauge", "The version, as a label; always 1");
  out.sample(1, {{"version", n.version}});
  out.family("process_start_time_seconds", "gauge", "Unix time at which the process started");
  out.sample(n.start_unix_s);
  return out.text();
}

Json stats_json(const ServerNumbers& n, const ServerCounters& c) {
  const EngineStats& s = n.engine;
  return {{"schema_version", 1},
          {"model", n.model},
          {"version", n.version},
          {"ready", n.ready},
          {"uptime_s", n.uptime_s},
          {"rss_bytes", n.rss_bytes},
          {"max_context", n.config.max_context},
          {"max_sequences", n.config.max_sequences},
          {"max_queue", n.config.max_queue},
          {"page_tokens", n.config.page_tokens},
          {"running", s.running},
          {"waiting", s.waiting},
          {"swapped", s.swapped},
          {"paused", s.paused},
          {"pages_total", s.pages_total},
          {"pages_free", s.pages_free},
          {"pages_cached", s.pages_cached},
          {"kv_occupancy", s.kv_occupancy},
          {"fragmentation", s.fragmentation},
          {"steps", s.steps},
          {"prompt_tokens", s.prompt_tokens},
          {"cached_prompt_tokens", s.cached_prompt_tokens},
          {"generated_tokens", s.generated_tokens},
          {"prefix_queries", s.prefix_queries},
          {"prefix_hits", s.prefix_hits},
          {"preemptions", s.preemptions},
          {"finished_stop", s.finished_stop},
          {"finished_length", s.finished_length},
          {"finished_cancelled", s.finished_cancelled},
          {"finished_deadline", s.finished_deadline},
          {"finished_error", s.finished_error},
          {"drain_tokens_per_s", s.drain_tokens_per_s},
          {"last_step_ms", s.last_step_ms},
          {"last_batch_tokens", s.last_batch_tokens},
          {"last_batch_sequences", s.last_batch_sequences},
          {"graphs",
           {{"captures", s.graphs.recorded},
            {"hits", s.graphs.launched - s.graphs.recorded},
            {"rows", s.graphs.rows},
            {"padded_rows", s.graphs.padded_rows}}},
          {"connections", c.connections.load()},
          {"in_flight", c.in_flight.load()},
          {"parsing", c.parsing.load()},
          {"disconnects", c.disconnects.load()},
          {"histograms",
           {{"ttft_s", histogram_json(s.ttft_s)},
            {"itl_s", histogram_json(s.itl_s)},
            {"tpot_s", histogram_json(s.tpot_s)},
            {"e2e_s", histogram_json(s.e2e_s)},
            {"queue_s", histogram_json(s.queue_s)},
            {"prefill_s", histogram_json(s.prefill_s)},
            {"decode_s", histogram_json(s.decode_s)},
            {"step_tokens", histogram_json(s.step_tokens)},
            {"prompt_lengths", histogram_json(s.prompt_lengths)},
            {"output_lengths", histogram_json(s.output_lengths)}}}};
}

}  // namespace cheetah
