// SPDX-License-Identifier: MIT
// POST /v1/completions
#include "base/format.h"
#include "serve/api/completion_writer.h"
#include "serve/api/constraint.h"
#include "serve/api/failure.h"
#include "serve/api/fill_in_middle.h"
#include "serve/api/prompts.h"

namespace cheetah {
namespace {

void read_logprobs(Fields& fields, CompletionStyle& style, GenerationRequest& request) {
  const auto top = fields.integer("logprobs", 0, 20);
  if (!top) return;
  style.logprobs = true;
  style.top_logprobs = static_cast<int>(*top);
  request.top_logprobs = style.top_logprobs;
  if (style.echo) request.prompt_logprobs = true;
  if (style.echo && style.stream.stream)
    refuse("conflicting_parameters", "logprobs", "echo with logprobs cannot be streamed");
}

// With a suffix the prompts become what models that fill a gap read.
void fill_gaps(Fields& fields, const ApiServices& services, std::vector<Prompt>& prompts) {
  const auto suffix = fields.string("suffix", SIZE_MAX);
  if (!suffix || suffix->empty()) return;
  const OrderedJson* const given = fields.find("prompt");
  const bool is_text =
      given->is_string() || (given->is_array() && !given->empty() && given->front().is_string());
  if (!is_text) refuse("conflicting_parameters", "suffix", "suffix needs a prompt of text, not of token ids");
  for (Prompt& prompt : prompts)
    prompt.ids = fill_in_middle({.prefix = prompt.text, .suffix = *suffix}, services, "suffix");
}

void read_fields(Fields& fields, const ApiServices& services, const CallFacts& facts, CompletionStyle& style,
    GenerationRequest& request) {
  static_cast<AnswerStyle&>(style) = make_style(services, facts, "cmpl-");
  style.stream = read_stream(fields);
  style.echo = fields.boolean("echo").value_or(false);
  read_sampling(fields, services, facts, request);
  read_logprobs(fields, style, request);
  read_prompt_logprobs(fields, style, request);
  if (style.stream.stream && request.best_of > request.n)
    refuse("conflicting_parameters", "best_of", "best_of cannot be used with \"stream\": true");
  request.grammar = read_constraint(fields, services);
  style.token_ids = fields.boolean("return_token_ids").value_or(false);
  style.timings = fields.boolean("timings").value_or(false) || facts.timings;
  style.n = request.n;
  fields.no_effect("store", {"false"});
  fields.no_effect("cache_prompt", {"true"});
  fields.ignore({"request_id", "session_id", "metadata"});
}

ApiCall parse(std::string_view body, const ApiServices& services, const CallFacts& facts) {
  const OrderedJson json = parse_body(body);
  Fields fields(json, "");
  check_model(fields, services);
  std::vector<Prompt> prompts = read_prompts(fields, services, {});
  fill_gaps(fields, services, prompts);
  ApiCall call;
  CompletionStyle style;
  GenerationRequest request;
  read_fields(fields, services, facts, style, request);
  const auto max_tokens = fields.integer("max_tokens", style.echo ? 0 : 1, INT32_MAX);
  const auto truncate_to = fields.integer("truncate_prompt_tokens", 1, services.max_context);
  fields.finish(services.strict_fields, call.warnings);
  for (Prompt& prompt : prompts) {
    if (truncate_to && std::ssize(prompt.ids) > *truncate_to)
      prompt.ids.erase(prompt.ids.begin(), prompt.ids.end() - static_cast<std::ptrdiff_t>(*truncate_to));
    request.prompt = std::move(prompt.ids);
    fit_to_context(services, max_tokens.value_or(16), request, prompt.param, call.warnings);
    call.requests.push_back(request);
    if (style.echo) style.echoed.push_back(std::move(prompt.text));
  }
  call.stream = style.stream.stream;
  call.wants_timings = style.timings;
  call.writer = make_completion_writer(std::move(style), call.requests);
  return call;
}

}  // namespace

ApiResult parse_completion(std::string_view body, const ApiServices& services, const CallFacts& facts) {
  return guarded([&] { return parse(body, services, facts); });
}

}  // namespace cheetah
