// SPDX-License-Identifier: MIT
#include "observe/trace.h"

#include <sys/random.h>

#include <algorithm>
#include <atomic>
#include <chrono>

#include "base/format.h"
#include "base/hash.h"

namespace cheetah {
namespace {

bool is_lower_hex(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool all_zero(std::string_view text) { return text.find_first_not_of('0') == std::string_view::npos; }

Json attribute(std::string_view key, Json value) { return {{"key", key}, {"value", std::move(value)}}; }

Json text(std::string_view key, std::string_view value) { return attribute(key, {{"stringValue", value}}); }
// OTLP's JSON writes 64-bit integers as strings.
Json integer(std::string_view key, int64_t value) {
  return attribute(key, {{"intValue", std::to_string(value)}});
}
Json number(std::string_view key, double value) { return attribute(key, {{"doubleValue", value}}); }
Json flag(std::string_view key, bool value) { return attribute(key, {{"boolValue", value}}); }

void add_request(Json& list, const TracedRequest& request) {
  if (request.operation.empty()) return;  // refused before it was understood
  list.push_back(text("gen_ai.operation.name", request.operation));
  list.push_back(text("gen_ai.provider.name", "cheetah"));
  list.push_back(text("gen_ai.request.model", request.model));
  list.push_back(text("gen_ai.response.model", request.model));
  list.push_back(flag("gen_ai.request.stream", request.stream));
  if (request.operation == "embeddings") return;
  list.push_back(integer("gen_ai.request.max_tokens", request.max_tokens));
  list.push_back(integer("gen_ai.request.choice.count", request.choices));
  list.push_back(number("gen_ai.request.temperature", request.temperature));
  list.push_back(number("gen_ai.request.top_p", request.top_p));
  if (request.top_k > 0) list.push_back(integer("gen_ai.request.top_k", request.top_k));
  list.push_back(integer("gen_ai.request.seed", static_cast<int64_t>(request.seed)));
}

Json attributes(const TraceRecord& record, const TraceResource& resource) {
  Json list = Json::array();
  list.push_back(text("http.request.method", "POST"));
  list.push_back(text("http.route", record.route));
  list.push_back(integer("http.response.status_code", record.status));
  list.push_back(text("server.address", resource.server_address));
  list.push_back(integer("server.port", resource.server_port));
  list.push_back(text("cheetah.request.id", record.request_id));
  add_request(list, record.request);
  if (!record.error_code.empty()) list.push_back(text("error.type", record.error_code));
  if (record.finish.empty()) return list;
  list.push_back(attribute("gen_ai.response.finish_reasons",
      {{"arrayValue", {{"values", Json::array({{{"stringValue", record.finish}}})}}}}));
  list.push_back(integer("gen_ai.usage.input_tokens", record.prompt_tokens));
  list.push_back(integer("gen_ai.usage.output_tokens", record.completion_tokens));
  list.push_back(integer("gen_ai.usage.cache_read.input_tokens", record.cached_tokens));
  if (record.first_token_unix_ns > 0)
    list.push_back(number("gen_ai.response.time_to_first_chunk",
        static_cast<double>(record.first_token_unix_ns - record.start_unix_ns) / 1e9));
  return list;
}

Json inner_span(const TraceSpan& span) {
  constexpr int kInternal = 1;
  Json list = Json::array();
  if (!span.worker.empty()) list.push_back(text("cheetah.worker", span.worker));
  for (const auto& [name, value] : span.numbers) list.push_back(integer("cheetah." + name, value));
  return {{"traceId", span.context.trace_id}, {"spanId", span.span_id},
      {"parentSpanId", span.context.parent_id}, {"name", span.name}, {"kind", kInternal},
      {"startTimeUnixNano", std::to_string(span.start_unix_ns)},
      {"endTimeUnixNano", std::to_string(span.end_unix_ns)}, {"attributes", std::move(list)}};
}

TraceSpan span_of(const TraceRecord& record, const TracePhase& phase, const std::string& parent) {
  return {.context = {record.context.trace_id, parent},
      .span_id = random_hex(8),
      .name = phase.name,
      .worker = phase.worker,
      .start_unix_ns = phase.start_unix_ns,
      .end_unix_ns = phase.end_unix_ns,
      .numbers = {}};
}

Json span(const TraceRecord& record, const TraceResource& resource, const std::string& span_id) {
  constexpr int kServer = 2, kError = 2;
  const TracedRequest& request = record.request;
  Json out = {{"traceId", record.context.trace_id}, {"spanId", span_id},
      {"name", request.operation.empty() ? "POST " + record.route : request.operation + " " + request.model},
      {"kind", kServer}, {"startTimeUnixNano", std::to_string(record.start_unix_ns)},
      {"endTimeUnixNano", std::to_string(record.end_unix_ns)}, {"attributes", attributes(record, resource)},
      {"status", record.status >= 500 ? Json{{"code", kError}} : Json::object()}};
  if (!record.context.parent_id.empty()) out["parentSpanId"] = record.context.parent_id;
  if (record.first_token_unix_ns > 0)
    out["events"] = Json::array(
        {{{"name", "first_token"}, {"timeUnixNano", std::to_string(record.first_token_unix_ns)}}});
  return out;
}

}  // namespace

bool system_random(void* to, size_t bytes) { return getrandom(to, bytes, 0) == static_cast<ssize_t>(bytes); }

std::string random_hex(size_t bytes, RandomFill fill) {
  std::vector<unsigned char> raw(bytes);
  if (!fill(raw.data(), bytes)) {
    static std::atomic<uint64_t> count = 0;
    SplitMix64 numbers(
        mix64(count++) ^ static_cast<uint64_t>(std::chrono::system_clock::now().time_since_epoch().count()));
    for (unsigned char& byte : raw) byte = static_cast<unsigned char>(numbers.next());
  }
  if (!raw.empty() && std::ranges::all_of(raw, [](unsigned char byte) { return byte == 0; })) raw.back() = 1;
  std::string out;
  for (const unsigned char byte : raw) out += format("{:02x}", byte);
  return out;
}

TraceContext new_trace() { return {.trace_id = random_hex(16), .parent_id = ""}; }

std::string traceparent(const TraceContext& context, std::string_view span_id) {
  if (context.trace_id.empty()) return "";
  return format("00-{}-{}-{}", context.trace_id, span_id, context.sampled ? "01" : "00");
}

// 00-<trace id>-<parent id>-<flags>; later versions may add fields.
std::optional<TraceContext> parse_traceparent(std::string_view header) {
  constexpr size_t kLength = 55;
  if (header.size() < kLength || header[2] != '-' || header[35] != '-' || header[52] != '-')
    return std::nullopt;
  const std::string_view version = header.substr(0, 2), trace = header.substr(3, 32),
                         parent = header.substr(36, 16), flags = header.substr(53, 2);
  if (!is_lower_hex(version) || !is_lower_hex(trace) || !is_lower_hex(parent) || !is_lower_hex(flags))
    return std::nullopt;
  if (version == "ff" || all_zero(trace) || all_zero(parent)) return std::nullopt;
  if (header.size() > kLength && (version == "00" || header[kLength] != '-')) return std::nullopt;
  const bool sampled = std::string_view("13579bdf").find(flags[1]) != std::string_view::npos;
  return TraceContext{std::string(trace), std::string(parent), sampled};
}

std::string otlp_body(const std::vector<TraceItem>& items, const TraceResource& resource) {
  Json spans = Json::array();
  for (const TraceItem& item : items) {
    if (const auto* inner = std::get_if<TraceSpan>(&item)) {
      spans.push_back(inner_span(*inner));
      continue;
    }
    const TraceRecord& record = std::get<TraceRecord>(item);
    const std::string id = record.span_id.empty() ? random_hex(8) : record.span_id;
    spans.push_back(span(record, resource, id));
    for (const TracePhase& phase : record.phases)
      if (phase.duration_ns > 0) spans.push_back(inner_span(span_of(record, phase, id)));
  }
  const Json about = Json::array(
      {text("service.name", resource.service_name), text("service.version", resource.service_version)});
  const Json scope = {{"scope", {{"name", "cheetah"}}}, {"spans", std::move(spans)}};
  return dump_json({{"resourceSpans",
      Json::array({{{"resource", {{"attributes", about}}}, {"scopeSpans", Json::array({scope})}}})}});
}

}  // namespace cheetah
