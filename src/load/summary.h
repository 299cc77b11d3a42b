// SPDX-License-Identifier: MIT
#pragma once
// What the records of a run add up to. Pure: times in, numbers out.
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "load/record.h"

namespace cheetah {

struct Distribution {
  int64_t count = 0;
  double mean = 0, min = 0, p50 = 0, p90 = 0, p95 = 0, p99 = 0, max = 0;
};
Distribution describe(std::vector<double> samples);

// Latency targets; a request is good when it meets all that are set.
struct Slo {
  std::optional<double> ttft_s{};
  std::optional<double> tpot_s{};
  bool any() const { return ttft_s || tpot_s; }
};

// TTFT counts from the scheduled time, so that a server that makes us late does not look fast.
bool meets(const RequestRecord& record, const Slo& slo);

struct LoadSummary {
  int64_t requests = 0;   // sent, those we interrupted not counted
  int64_t completed = 0;  // with a whole answer
  int64_t good = 0;       // completed within the SLOs
  int64_t interrupted = 0;
  double duration_s = 0;               // first request scheduled to last answer
  std::optional<double> offered_rate;  // arrivals per second of their window; nullopt: a closed loop
  double request_rate = 0, output_rate = 0,
         total_rate = 0;  // completed, output tokens, all tokens per second
  double attainment = 0;  // good / requests
  double goodput = 0;     // good / duration_s
  Distribution ttft, ttft_from_sent, e2e, e2e_from_sent, tpot, itl;
  Distribution send_lag;  // how late the client itself was
  int64_t prompt_tokens = 0, cached_tokens = 0, output_tokens = 0, asked_tokens = 0, events = 0;
  int64_t without_usage = 0;                // completed requests whose tokens we had to count as events
  std::map<std::string, int64_t> failures;  // by kind; statuses apart
  std::map<std::string, std::string> first_failure;  // what the first of each kind said
  double mean_in_flight = 0;
};

// `offered_rate`: what an open loop really sent.
LoadSummary summarize(
    std::span<const RequestRecord> records, const Slo& slo, std::optional<double> offered_rate);

// What the load generator itself took; the measurement is only as good as its client.
struct ClientFacts {
  double cpu_share = 0;         // of one core, the client has one thread
  bool unique_prompts = false;  // no prompt was meant to be found in a prefix cache
};

// What the reader must know before believing the numbers.
std::vector<std::string> warnings_of(const LoadSummary& summary, const ClientFacts& client);

struct Definition {
  const char* name;
  const char* text;
};
std::span<const Definition> definitions();

}  // namespace cheetah
