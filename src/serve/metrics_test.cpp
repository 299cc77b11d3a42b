// SPDX-License-Identifier: MIT
#include "serve/metrics.h"

#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "serve/routes.h"

namespace cheetah {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

ServerNumbers numbers() {
  ServerNumbers n;
  n.engine = empty_stats();
  n.model = "a \"model\"\\\n";
  n.version = "1";
  return n;
}

TEST(Metrics, AreInTheExpositionFormat) {
  const ServerCounters counters;
  const std::regex sample(
      R"(^[a-zA-Z_:][a-zA-Z0-9_:]*(\{[a-z_]+="(\\.|[^"\\])*"(,[a-z_]+="(\\.|[^"\\])*")*\})? (-?[0-9.e+-]+|\+Inf)$)");
  std::set<std::string> families, series;
  std::string family;
  for (const std::string& line : lines_of(metrics_text(numbers(), counters))) {
    if (line.starts_with("# HELP ")) {
      family = line.substr(7, line.find(' ', 7) - 7);
      EXPECT_TRUE(families.insert(family).second) << family << " stands twice";
      continue;
    }
    if (line.starts_with("# TYPE ")) {
      EXPECT_EQ(line.substr(7, line.find(' ', 7) - 7), family);
      continue;
    }
    EXPECT_TRUE(std::regex_match(line, sample)) << line;
    EXPECT_TRUE(line.starts_with(family)) << line;
    EXPECT_TRUE(series.insert(line.substr(0, line.rfind(' '))).second) << line;
  }
}

TEST(Metrics, HaveTheNamesDashboardsKnowFromTheFirstSecond) {
  const ServerCounters counters;
  const std::string text = metrics_text(numbers(), counters);
  for (const char* name :
      {"vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc",
          "vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total", "vllm:prompt_tokens_total",
          "vllm:generation_tokens_total", "vllm:num_preemptions_total", "vllm:request_success_total",
          "vllm:time_to_first_token_seconds_bucket", "vllm:inter_token_latency_seconds_count",
          "vllm:e2e_request_latency_seconds_sum", "cheetah_http_responses_total", "cheetah_ready"})
    EXPECT_NE(text.find(std::string("\n") + name), std::string::npos) << name;
}

TEST(Metrics, KeepTheSameSeriesUnderLoad) {
  ServerCounters counters;
  ServerNumbers n = numbers();
  const size_t before = lines_of(metrics_text(n, counters)).size();
  n.engine.ttft_s.observe(0.01);
  counters.reject(Rejection::kAuth);
  ++counters.responses[0][2];
  EXPECT_EQ(lines_of(metrics_text(n, counters)).size(), before);
}

TEST(Metrics, TellWhatGraphsOfDecodeStepsDid) {
  ServerNumbers n = numbers();
  n.model = "m";
  n.engine.graphs = {.recorded = 2, .launched = 9, .rows = 40, .padded_rows = 8};
  const ServerCounters counters;
  const std::string text = metrics_text(n, counters);
  for (const char* line :
      {"cheetah_graph_captures_total{model_name=\"m\"} 2\n", "cheetah_graph_hits_total{model_name=\"m\"} 7\n",
          "cheetah_graph_rows_total{model_name=\"m\"} 40\n",
          "cheetah_graph_padded_rows_total{model_name=\"m\"} 8\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line;
  EXPECT_EQ(stats_json(n, counters)["graphs"]["hits"], 7);
}

TEST(Stats, HoldWhatThePageReads) {
  const ServerCounters counters;
  const Json stats = stats_json(numbers(), counters);
  for (const char* name : {"running", "waiting", "swapped", "max_sequences", "pages_total", "pages_free",
           "pages_cached", "steps", "prompt_tokens", "generated_tokens", "prefix_queries", "prefix_hits",
           "preemptions", "finished_stop", "finished_length", "finished_deadline", "finished_error",
           "last_step_ms", "last_batch_tokens"})
    EXPECT_TRUE(stats.contains(name)) << name;
  for (const char* name : {"ttft_s", "tpot_s", "itl_s"}) {
    const Json& h = stats["histograms"][name];
    EXPECT_EQ(h["counts"].size(), h["bounds"].size() + 1);
  }
}

}  // namespace
}  // namespace cheetah
