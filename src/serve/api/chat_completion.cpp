// SPDX-License-Identifier: MIT
// POST /v1/chat/completions
#include <algorithm>
#include <array>

#include "base/format.h"
#include "model/tokenizer/tokenizer.h"
#include "serve/api/chat_plan.h"
#include "serve/api/chat_writer.h"
#include "serve/api/constraint.h"
#include "serve/api/failure.h"
#include "serve/api/reasoning_fields.h"

namespace cheetah {
namespace {

// Arguments of the function that renders templates elsewhere; here they are not the client's business.
constexpr std::array<std::string_view, 9> kNotVariables = {"tokenize", "messages", "conversation",
    "chat_template", "add_generation_prompt", "truncation", "padding", "max_length", "return_tensors"};

std::optional<int64_t> read_max_tokens(Fields& fields) {
  const auto old_name = fields.integer("max_tokens", 1, INT32_MAX);
  const auto new_name = fields.integer("max_completion_tokens", 1, INT32_MAX);
  if (old_name && new_name && *old_name != *new_name)
    refuse("conflicting_parameters", "max_tokens",
        format("max_tokens={} and max_completion_tokens={} differ; send one of them", *old_name, *new_name));
  return new_name ? new_name : old_name;
}

void read_logprobs(Fields& fields, ChatPlan& plan) {
  plan.style.logprobs = fields.boolean("logprobs").value_or(false);
  const auto top = fields.integer("top_logprobs", 0, 20);
  if (top && !plan.style.logprobs)
    refuse("missing_parameter", "logprobs", "top_logprobs needs \"logprobs\": true");
  plan.style.top_logprobs = static_cast<int>(top.value_or(0));
  if (plan.style.logprobs) plan.request.top_logprobs = plan.style.top_logprobs;
}

void read_template_fields(Fields& fields, ChatInput& input) {
  if (fields.has("chat_template"))
    refuse("chat_template_not_allowed", "chat_template",
        "chat_template cannot be sent with a request; the model's own is used");
  if (const OrderedJson* variables = fields.object("chat_template_kwargs")) {
    for (const auto& [name, value] : variables->items())
      if (std::ranges::find(kNotVariables, name) != kNotVariables.end())
        refuse("unknown_parameter", "chat_template_kwargs." + name,
            format("unknown parameter chat_template_kwargs.{}", name));
    input.variables = *variables;
  }
  if (const OrderedJson* documents = fields.array("documents")) input.documents = *documents;
  input.add_generation_prompt = fields.boolean("add_generation_prompt").value_or(true);
  input.continue_final_message = fields.boolean("continue_final_message").value_or(false);
}

void check_metadata(Fields& fields) {
  constexpr size_t kMaxBytes = 16 << 10;
  const OrderedJson* metadata = fields.object("metadata");
  if (metadata && dump_ordered(*metadata).size() > kMaxBytes)
    refuse("invalid_value", "metadata", format("metadata has more than {} bytes", kMaxBytes));
}

// What the client expects to read: drafts come from it. OpenAI's form, text alone.
void read_prediction(Fields& fields, const ApiServices& services, GenerationRequest& request) {
  const OrderedJson* prediction = fields.object("prediction");
  if (!prediction) return;
  const std::string form = R"(prediction must be {"type": "content", "content": TEXT})";
  if (!prediction->contains("content")) refuse("missing_parameter", "prediction.content", form);
  if (prediction->contains("type") && (*prediction)["type"] != "content")
    refuse("invalid_value", "prediction.type", form);
  const std::string text = content_text((*prediction)["content"], "prediction.content");
  check_text_length(services, text, "prediction.content");
  request.prediction = tokenizer_of(services).encode(text, {.add_special = false, .parse_special = false});
}

ChatPlan read_plan(
    Fields& fields, const ApiServices& services, const CallFacts& facts, std::vector<std::string>& warnings) {
  ChatPlan plan;
  check_model(fields, services);
  const OrderedJson* messages = fields.find("messages");
  if (!messages) fields.missing("messages");
  plan.input.messages = read_messages(*messages, "messages");
  plan.style = make_style(services, facts, "chatcmpl-");
  plan.style.stream = read_stream(fields);
  read_template_fields(fields, plan.input);
  read_reasoning_budget(fields, plan, warnings);
  if (const auto effort = fields.string("reasoning_effort", 32))
    read_reasoning_effort(*effort, "reasoning_effort", services, plan);
  read_logprobs(fields, plan);
  read_sampling(fields, services, facts, plan.request);
  if (plan.style.stream.stream && plan.request.best_of > plan.request.n)
    refuse("conflicting_parameters", "best_of", "best_of cannot be used with \"stream\": true");
  read_prompt_logprobs(fields, plan.style, plan.request);
  plan.max_tokens = read_max_tokens(fields);
  read_prediction(fields, services, plan.request);
  plan.truncate_to = fields.integer("truncate_prompt_tokens", 1, services.max_context);
  plan.request.grammar = read_constraint(fields, services);
  plan.tools = read_tools(fields);
  plan.tool_choice = read_tool_choice(fields, plan.tools.get());
  plan.style.token_ids = fields.boolean("return_token_ids").value_or(false);
  plan.style.timings = fields.boolean("timings").value_or(false) || facts.timings;
  check_metadata(fields);
  fields.no_effect("store", {"false"});
  fields.no_effect("modalities", {R"(["text"])"});
  fields.no_effect("service_tier", {R"("auto")", R"("default")"});
  fields.no_effect("verbosity", {R"("medium")"});
  for (const std::string_view name : {"audio", "web_search_options"}) fields.no_effect(name);
  fields.no_effect("cache_prompt", {"true"});
  fields.ignore({"request_id", "session_id", "safety_identifier", "prompt_cache_key"});
  return plan;
}

}  // namespace

ApiResult parse_chat_completion(std::string_view body, const ApiServices& services, const CallFacts& facts) {
  return guarded([&] {
    const OrderedJson json = parse_body(body);
    Fields fields(json, "");
    ApiCall call;
    ChatPlan plan = read_plan(fields, services, facts, call.warnings);
    fields.finish(services.strict_fields, call.warnings);
    prepare(plan, services, facts, call.warnings);
    call.stream = plan.style.stream.stream;
    call.wants_timings = plan.style.timings;
    call.writer = make_chat_writer(plan);
    call.requests.push_back(std::move(plan.request));
    return call;
  });
}

}  // namespace cheetah
