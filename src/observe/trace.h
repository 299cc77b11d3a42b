// SPDX-License-Identifier: MIT
#pragma once
// One span per call, in OpenTelemetry's terms: the caller (W3C trace context), the request, the times.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/json.h"

namespace cheetah {

struct TraceContext {
  std::string trace_id;   // 32 hex digits
  std::string parent_id;  // 16, or "" for the first span of a trace
  bool sampled = true;    // the caller wants it recorded
};

// Of a traceparent header; nullopt when it is malformed, and a new trace begins.
std::optional<TraceContext> parse_traceparent(std::string_view header);
// Fills a buffer with random bytes; false when the system gives none.
using RandomFill = bool (*)(void* to, size_t bytes);
bool system_random(void* to, size_t bytes);
// A new id of 2 * bytes hex digits, never all 0. Without random bytes it is made of the time and a count.
std::string random_hex(size_t bytes, RandomFill fill = system_random);
TraceContext new_trace();
// The header to pass on for a span; "" without a trace.
std::string traceparent(const TraceContext& context, std::string_view span_id);

// What a traced generation asked for. Never its text.
struct TracedRequest {
  std::string operation;  // chat, text_completion, embeddings …
  std::string model;
  int64_t max_tokens = 0;
  double temperature = 0, top_p = 1;
  int64_t top_k = 0, choices = 1;
  uint64_t seed = 0;
  bool stream = false;
};

// A part of a call that workers of a cluster did.
struct TracePhase {
  std::string name;
  int64_t duration_ns = 0;
  std::string worker;  // "": not known
  int64_t start_unix_ns = 0, end_unix_ns = 0;
};

struct TraceRecord {
  TraceContext context;
  std::string span_id;  // "": a new one
  TracedRequest request;
  std::string request_id, route, finish, error_code;
  int status = 0;
  int64_t prompt_tokens = 0, cached_tokens = 0, completion_tokens = 0;
  int64_t start_unix_ns = 0, end_unix_ns = 0, first_token_unix_ns = 0;  // the last is 0 without a token
  std::vector<TracePhase> phases;                                       // spans below this one
};

// The span of a cluster worker that takes part in a call.
struct TraceSpan {
  TraceContext context;
  std::string span_id, name;
  std::string worker;
  int64_t start_unix_ns = 0, end_unix_ns = 0;
  std::vector<std::pair<std::string, int64_t>> numbers;  // attributes, below "cheetah."
};
using TraceItem = std::variant<TraceRecord, TraceSpan>;

struct TraceResource {
  std::string service_name = "cheetah";
  std::string service_version;
  std::string server_address;
  int server_port = 0;
};

// The body of an OTLP/HTTP export in JSON.
std::string otlp_body(const std::vector<TraceItem>& items, const TraceResource& resource);

}  // namespace cheetah
