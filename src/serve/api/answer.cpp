// SPDX-License-Identifier: MIT
#include "serve/api/answer.h"

#include <algorithm>
#include <numeric>

#include "base/format.h"
#include "engine/grammar/grammar_cache.h"
#include "engine/tags/cluster_times.h"
#include "serve/api/failure.h"
#include "serve/api/json_text.h"

namespace cheetah {
namespace {

double ms_between(EngineTime from, EngineTime to) {
  if (from == EngineTime{} || to == EngineTime{}) return 0;
  return std::chrono::duration<double, std::milli>(to - from).count();
}

double rate_per_s(int64_t count, double ms) { return ms > 0 ? static_cast<double>(count) * 1e3 / ms : 0; }

double milliseconds(std::chrono::microseconds time) { return static_cast<double>(time.count()) / 1e3; }

// The waterfall of a request that several workers answered.
std::string cluster_json(const ClusterTimes& times) {
  std::string slabs;
  for (const SlabOnItsWay& slab : times.slabs)
    slabs += format(
        R"({}{{"first_token":{},"tokens":{},"posted_ms":{:.3f},"landed_ms":{:.3f},"imported_ms":{:.3f}}})",
        slabs.empty() ? "" : ",", slab.first_token, slab.num_tokens, milliseconds(slab.posted),
        milliseconds(slab.landed), milliseconds(slab.imported));
  return format(
      R"(,"cluster":{{"queue_ms":{:.3f},"prefill_ms":{:.3f},"transfer_ms":{:.3f},"decode_ms":{:.3f},)"
      R"("remote_tokens":{},"attempts":{},"prefill_worker":{},"decode_worker":{},"worker_reason":{},)"
      R"("prefill_reason":{},"fallback":{},"degraded":{},)"
      R"("computed_ms":{:.3f},"slabs_hidden":{},"slabs":[{}]}})",
      milliseconds(times.queued), milliseconds(times.prefill), milliseconds(times.transfer),
      milliseconds(times.decode), times.remote_tokens, times.attempts, json_string(times.prefill_worker),
      json_string(times.decode_worker), json_string(times.worker_reason), json_string(times.prefill_reason),
      json_string(times.fallback), json_string(times.degraded), milliseconds(times.computed),
      times.slabs_hidden, slabs);
}

// A special token has a name but adds nothing to the text: its bytes are null.
void append_token(std::string& out, int32_t id, float logprob, const ModelTables& tables) {
  const std::string_view bytes = tables.token_bytes(id);
  out += "{\"token\":";
  append_quoted(out, bytes);
  out += ",\"logprob\":";
  append_number(out, static_cast<double>(logprob));
  out += ",\"bytes\":";
  if (tables.is_special(id)) {
    out += "null";
    return;
  }
  for (size_t i = 0; i < bytes.size(); ++i)
    out += format("{}{}", i == 0 ? '[' : ',', static_cast<unsigned>(static_cast<unsigned char>(bytes[i])));
  out += bytes.empty() ? "[]" : "]";
}

}  // namespace

AnswerStyle make_style(const ApiServices& services, const CallFacts& facts, const char* id_prefix) {
  AnswerStyle style;
  style.id = id_prefix + facts.id;
  style.model = services.model_name;
  style.fingerprint = services.system_fingerprint;
  style.created = facts.unix_time;
  style.tables = &services.grammars.tables();
  return style;
}

void UsageCount::add(size_t index, const GenerationEvent& event, bool reasoning) {
  completion_ += std::ssize(event.tokens);
  if (reasoning) reasoning_ += std::ssize(event.tokens);
  if (tells_drafts_) {
    accepted_ += event.accepted_drafts;  // on the last event of a choice
    rejected_ += event.rejected_drafts;
  }
  if (event.finish) cached_[index] = event.cached_tokens;
}

int64_t UsageCount::cached_tokens() const {
  return std::accumulate(cached_.begin(), cached_.end(), int64_t{0});
}

std::string UsageCount::json() const {
  return format(R"({{"prompt_tokens":{},"completion_tokens":{},"total_tokens":{},)"
                R"("prompt_tokens_details":{{"cached_tokens":{}}},)"
                R"("completion_tokens_details":{{"reasoning_tokens":{},"accepted_prediction_tokens":{},)"
                R"("rejected_prediction_tokens":{}}}}})",
      prompt_, completion_, prompt_ + completion_, cached_tokens(), reasoning_, accepted_, rejected_);
}

void TokenTimes::add(const GenerationEvent& event) {
  if (event.choice == 0) made_.insert(made_.end(), event.tokens.size(), event.made);
}

std::string timings_json(const GenerationEvent& last, const TokenTimes* tokens) {
  const RequestTimes& times = last.times;
  const double prompt_ms = ms_between(times.scheduled, times.first_token);
  const double predicted_ms = ms_between(times.first_token, times.finished);
  const int64_t prompt_n = last.prompt_tokens - last.cached_tokens;
  const SharedClusterTimes cluster = cluster_times_of(last);
  std::string more = cluster ? cluster_json(*cluster) : "";
  if (const int64_t drafted = last.accepted_drafts + last.rejected_drafts; drafted > 0)
    more += format(R"(,"draft_n":{},"draft_n_accepted":{})", drafted, last.accepted_drafts);
  if (tokens != nullptr) {
    more += ",\"token_ms\":[";
    for (const EngineTime made : tokens->made())
      more += format("{}{:.3f}", more.ends_with('[') ? "" : ",", ms_between(times.arrived, made));
    more += ']';
  }
  return format(
      R"({{"request_id":{},"queue_ms":{:.3f},"cache_n":{},"prompt_n":{},"prompt_ms":{:.3f},"prompt_per_second":{:.3f},)"
      R"("predicted_n":{},"predicted_ms":{:.3f},"predicted_per_second":{:.3f},"ttft_ms":{:.3f},)"
      R"("total_ms":{:.3f}{}}})",
      static_cast<uint64_t>(last.request), ms_between(times.arrived, times.scheduled), last.cached_tokens,
      prompt_n, prompt_ms, rate_per_s(prompt_n, prompt_ms), last.completion_tokens, predicted_ms,
      rate_per_s(last.completion_tokens, predicted_ms), ms_between(times.arrived, times.first_token),
      ms_between(times.arrived, times.finished), more);
}

void append_logprob(std::string& out, const GeneratedToken& token, int top, const ModelTables& tables) {
  append_token(out, token.id, token.logprob, tables);
  out += ",\"top_logprobs\":[";
  for (size_t i = 0; i < token.top.size() && i < static_cast<size_t>(top); ++i) {
    if (i > 0) out += ',';
    append_token(out, token.top[i].id, token.top[i].logprob, tables);
    out += '}';
  }
  out += "]}";
}

void read_prompt_logprobs(Fields& fields, AnswerStyle& style, GenerationRequest& request) {
  const auto top = fields.integer("prompt_logprobs", 0, 20);
  if (!top) return;
  if (style.stream.stream)
    refuse("conflicting_parameters", "prompt_logprobs", "prompt_logprobs cannot be streamed");
  style.prompt_logprobs = static_cast<int>(*top);
  request.prompt_logprobs = true;
  request.top_prompt_logprobs = style.prompt_logprobs;
}

std::string prompt_logprobs_json(const std::vector<GeneratedToken>& tokens, const ModelTables& tables) {
  std::string out = "[";
  const auto append = [&](const TokenLogprob& token, int64_t rank, bool first) {
    out += format(R"({}"{}":{{"logprob":)", first ? "" : ",", token.id);
    append_number(out, static_cast<double>(token.logprob));
    out += rank > 0 ? format(R"(,"rank":{},"decoded_token":)", rank)
                    : std::string(R"(,"rank":null,"decoded_token":)");
    append_quoted(out, tables.token_bytes(token.id));
    out += '}';
  };
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i == 0) {  // nothing stood before it
      out += "null";
      continue;
    }
    const GeneratedToken& token = tokens[i];
    const auto place = std::ranges::find(token.top, token.id, &TokenLogprob::id);
    const int64_t rank = place == token.top.end() ? 0 : place - token.top.begin() + 1;  // 0: further down
    out += ",{";
    append({.id = token.id, .logprob = token.logprob}, rank, true);
    for (size_t k = 0; k < token.top.size(); ++k)
      if (token.top[k].id != token.id) append(token.top[k], static_cast<int64_t>(k) + 1, false);
    out += '}';
  }
  return out + "]";
}

void append_ids(std::string& out, const std::vector<int32_t>& ids) {
  out += '[';
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i > 0) out += ',';
    out += format("{}", ids[i]);
  }
  out += ']';
}

std::string_view finish_name(FinishReason reason, bool called_tools) {
  switch (reason) {
    case FinishReason::kStop:
      return called_tools ? "tool_calls" : "stop";
    case FinishReason::kLength:
    case FinishReason::kDeadline:  // cut short, like a limit on tokens
      return "length";
    case FinishReason::kCancelled:
    case FinishReason::kError:
      break;
  }
  return "";
}

bool is_failure(const GenerationEvent& event) {
  return event.finish == FinishReason::kError || event.finish == FinishReason::kCancelled;
}

ApiError generation_error(const GenerationEvent& event) {
  if (event.finish == FinishReason::kCancelled)
    return {.status = 503,
        .message = "the request was cancelled before its answer was complete",
        .code = "cancelled"};
  switch (event.error_kind) {
    case ErrorKind::kTooLong:
      return {.status = 400, .message = event.error, .code = "context_length_exceeded"};
    case ErrorKind::kBadRequest:
      return {.status = 400, .message = event.error, .code = "invalid_value"};
    case ErrorKind::kQueueFull:
      return {.status = 503, .message = event.error, .code = "overloaded"};
    case ErrorKind::kQuota:
      return {.status = 429, .message = event.error, .code = "quota_exceeded"};
    case ErrorKind::kDraining:
      return {.status = 503, .message = event.error, .code = "draining"};
    default:
      return {.status = 500, .message = event.error, .code = "generation_failed"};
  }
}

}  // namespace cheetah
