// SPDX-License-Identifier: MIT
#include "load/summary.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/format.h"

namespace cheetah {
namespace {

// Linear interpolation between the nearest ranks, as base/statistics.h has it, of samples sorted once.
double sorted_quantile(std::span<const double> sorted, double q) {
  const double rank = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(rank);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (rank - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

std::string kind_of(const RequestRecord& record) {
  if (record.failure == RequestFailure::kStatus) return format("HTTP {}", record.http_status);
  return name_of(record.failure);
}

// Samples of the completed requests, gathered in one pass.
struct Samples {
  std::vector<double> ttft, ttft_from_sent, e2e, e2e_from_sent, tpot, itl, lag;

  void add(const RequestRecord& record) {
    ttft.push_back(record.first_s - record.scheduled_s);
    ttft_from_sent.push_back(record.first_s - record.sent_s);
    e2e.push_back(record.done_s - record.scheduled_s);
    e2e_from_sent.push_back(record.done_s - record.sent_s);
    if (const auto seconds = record.tpot_s()) tpot.push_back(*seconds);
    itl.insert(itl.end(), record.gaps_s.begin(), record.gaps_s.end());
  }

  void describe_in(LoadSummary& summary) {
    summary.ttft = describe(std::move(ttft));
    summary.ttft_from_sent = describe(std::move(ttft_from_sent));
    summary.e2e = describe(std::move(e2e));
    summary.e2e_from_sent = describe(std::move(e2e_from_sent));
    summary.tpot = describe(std::move(tpot));
    summary.itl = describe(std::move(itl));
    summary.send_lag = describe(std::move(lag));
  }
};

void count_tokens(LoadSummary& summary, const RequestRecord& record) {
  summary.prompt_tokens += record.prompt_tokens.value_or(0);
  summary.cached_tokens += record.cached_tokens;
  summary.output_tokens += record.tokens();
  summary.asked_tokens += record.asked_tokens;
  summary.events += record.events;
  if (!record.output_tokens) ++summary.without_usage;
}

void set_rates(LoadSummary& summary) {
  const auto share = [](int64_t part, int64_t whole) {
    return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
  };
  summary.attainment = share(summary.good, summary.requests);
  if (summary.duration_s > 0) {
    summary.request_rate = static_cast<double>(summary.completed) / summary.duration_s;
    summary.output_rate = static_cast<double>(summary.output_tokens) / summary.duration_s;
    summary.total_rate =
        static_cast<double>(summary.output_tokens + summary.prompt_tokens) / summary.duration_s;
    summary.goodput = static_cast<double>(summary.good) / summary.duration_s;
  }
}

}  // namespace

const char* name_of(RequestFailure failure) {
  switch (failure) {
    case RequestFailure::kNone:
      return "none";
    case RequestFailure::kConnect:
      return "no connection";
    case RequestFailure::kTimeout:
      return "timeout";
    case RequestFailure::kStatus:
      return "HTTP status";
    case RequestFailure::kCut:
      return "answer cut off";
    case RequestFailure::kNotAStream:
      return "not an event stream";
    case RequestFailure::kServerError:
      return "error in the stream";
    case RequestFailure::kEmptyAnswer:
      return "answer without a token";
    case RequestFailure::kInterrupted:
      return "interrupted";
  }
  return "";
}

Distribution describe(std::vector<double> samples) {
  if (samples.empty()) return {};
  std::sort(samples.begin(), samples.end());
  const double sum = std::accumulate(samples.begin(), samples.end(), 0.0);
  return {.count = static_cast<int64_t>(samples.size()),
      .mean = sum / static_cast<double>(samples.size()),
      .min = samples.front(),
      .p50 = sorted_quantile(samples, 0.50),
      .p90 = sorted_quantile(samples, 0.90),
      .p95 = sorted_quantile(samples, 0.95),
      .p99 = sorted_quantile(samples, 0.99),
      .max = samples.back()};
}

bool meets(const RequestRecord& record, const Slo& slo) {
  if (!record.ok()) return false;
  if (slo.ttft_s && record.first_s - record.scheduled_s > *slo.ttft_s) return false;
  const auto tpot = record.tpot_s();
  return !slo.tpot_s || !tpot || *tpot <= *slo.tpot_s;
}

LoadSummary summarize(
    std::span<const RequestRecord> records, const Slo& slo, std::optional<double> offered_rate) {
  LoadSummary summary;
  summary.offered_rate = offered_rate;
  Samples samples;
  double begin = INFINITY, end = 0, busy = 0;
  for (const RequestRecord& record : records) {
    if (record.failure == RequestFailure::kInterrupted) {
      ++summary.interrupted;
      continue;
    }
    ++summary.requests;
    begin = std::min(begin, record.scheduled_s);
    end = std::max(end, record.done_s);
    busy += record.done_s - record.sent_s;
    samples.lag.push_back(record.sent_s - record.due_s);
    if (!record.ok()) {
      ++summary.failures[kind_of(record)];
      summary.first_failure.try_emplace(kind_of(record), record.detail);
      continue;
    }
    ++summary.completed;
    if (meets(record, slo)) ++summary.good;
    count_tokens(summary, record);
    samples.add(record);
  }
  if (summary.requests > 0) summary.duration_s = end - begin;
  if (summary.duration_s > 0) summary.mean_in_flight = busy / summary.duration_s;
  set_rates(summary);
  samples.describe_in(summary);
  return summary;
}

std::vector<std::string> warnings_of(const LoadSummary& summary, const ClientFacts& client) {
  std::vector<std::string> warnings;
  const auto warn = [&](bool when, std::string text) {
    if (when) warnings.push_back(std::move(text));
  };
  constexpr double kLateS = 0.010, kBusyShare = 0.8;
  warn(summary.send_lag.p99 > kLateS, format("the client was late itself: 1 % of the requests left over "
                                             "{:.0f} ms after they were due; run it on "
                                             "another machine or at a lower rate",
                                          1e3 * summary.send_lag.p99));
  warn(client.cpu_share > kBusyShare, format("the client used {:.0f} % of its core: it may be the "
                                             "bottleneck, and latencies include its own delays",
                                          100 * client.cpu_share));
  warn(summary.requests > summary.completed, format("{} of {} requests failed and stand in no latency",
                                                 summary.requests - summary.completed, summary.requests));
  warn(summary.interrupted > 0,
      format("interrupted: {} requests had no whole answer yet and are left out", summary.interrupted));
  if (summary.completed == 0) return warnings;
  warn(summary.without_usage > 0,
      format("the server gave no token counts for {} answers: events were counted instead",
          summary.without_usage));
  const auto events = static_cast<double>(std::max<int64_t>(1, summary.events));
  const double per_event = static_cast<double>(summary.output_tokens) / events;
  warn(summary.without_usage == 0 && (per_event > 1.1 || per_event < 0.9),
      format("{:.2f} tokens per event: ITL is the gap between events, TPOT between tokens", per_event));
  warn(summary.output_tokens * 10 < summary.asked_tokens * 9,
      format("answers ended early, after {:.0f} % of the tokens asked for: --ignore-eos makes servers that "
             "know it go on",
          100.0 * static_cast<double>(summary.output_tokens) / static_cast<double>(summary.asked_tokens)));
  warn(client.unique_prompts && summary.cached_tokens * 10 > summary.prompt_tokens,
      format(
          "{:.0f} % of the prompt tokens came from the server's prefix cache: it has seen these prompts; use "
          "another --seed",
          100.0 * static_cast<double>(summary.cached_tokens) / static_cast<double>(summary.prompt_tokens)));
  return warnings;
}

std::span<const Definition> definitions() {
  static constexpr Definition kDefinitions[] = {
      {"TTFT", "time to first token: from the scheduled send time to the first event that carries text"},
      {"TPOT",
          "time per output token: (last text event - first text event) / (tokens - 1), one value per request"},
      {"ITL", "inter-token latency: every gap between two text events, one value per gap"},
      {"E2E", "end to end: from the scheduled send time to the end of the answer"},
      {"from schedule",
          "counted from when the request was due, so time lost waiting to send it counts (corrects for "
          "coordinated omission)"},
      {"from send", "counted from when the request left: what the server alone is seen to take"},
      {"throughput",
          "completed requests and their tokens, as the server's usage counts them, over the time from the first "
          "scheduled request to the last answer"},
      {"goodput",
          "requests per second that completed within every SLO, over the same time as the throughput"},
      {"offered", "requests per second that were due: their number over the time they were drawn for"},
      {"attainment", "share of all requests, failed ones too, that completed within every SLO"},
      {"knee", "the highest offered rate of a sweep at which at least 90 % of the requests meet every SLO"},
      {"send lag", "how long after it was due a request left the client: its own delay, to be near zero"},
  };
  return kDefinitions;
}

}  // namespace cheetah
