// SPDX-License-Identifier: MIT
#include "serve/api/chat_plan.h"

#include "base/format.h"
#include "engine/grammar/grammar_cache.h"
#include "model/model.h"
#include "model/template/chat_template.h"
#include "serve/api/marks.h"
#include "serve/api/reasoning_fields.h"

namespace cheetah {
namespace {

struct ReasoningTags {
  std::string_view open, close;
};
constexpr ReasoningTags kReasoningTags[] = {{"<think>", "</think>"}, {"[THINK]", "[/THINK]"}};

// Templates of models that think aloud speak of the tags; some open the first one themselves.
OutputShape reasoning_shape(std::string_view source, std::string_view prompt) {
  OutputShape shape;
  shape.harmony = source.find(HarmonyParser::kSign) != std::string_view::npos;
  prompt = prompt.substr(0, without_trailing_space(prompt));
  for (const ReasoningTags& tags : kReasoningTags) {
    if (source.find(tags.close) == std::string_view::npos) continue;
    shape.reasoning_open = tags.open;
    shape.reasoning_close = tags.close;
    shape.begins_in_reasoning = prompt.ends_with(tags.open);
    break;
  }
  return shape;
}

}  // namespace

void prepare(
    ChatPlan& plan, const ApiServices& services, const CallFacts& facts, std::vector<std::string>& warnings) {
  place_tools(plan, services);
  ChatPrompt prompt = render_chat(plan.input, services, facts);
  plan.request.prompt = std::move(prompt.ids);
  std::vector<int32_t>& ids = plan.request.prompt;
  if (plan.truncate_to && std::ssize(ids) > *plan.truncate_to)
    ids.erase(ids.begin(), ids.end() - static_cast<std::ptrdiff_t>(*plan.truncate_to));
  fit_to_context(services, plan.max_tokens, plan.request, plan.messages_param, warnings);
  // A grammar describes the answer from its first byte: there is no room for thoughts before it.
  if (!plan.request.grammar) {
    plan.shape = reasoning_shape(services.model.chat_template()->source(), prompt.text);
    if (plan.shape.harmony || services.grammars.tables().has_special(plan.shape.reasoning_close))
      plan.request.skip_special = false;  // the marks must be seen to be found
  }
  expect_calls(plan, services, prompt.text);
  bound_reasoning(plan, services, warnings);
}

std::vector<OutputDelta> ChatChoice::take(const GenerationEvent& event, const std::string& call_id_prefix) {
  std::vector<OutputDelta> deltas;
  parser.push(event.text, deltas);
  if (event.finish) {
    parser.finish(event.finish != FinishReason::kStop, deltas);
    finish = event.finish;
    stop_string = event.stop_string;
  }
  std::erase_if(deltas, [this](const OutputDelta& delta) { return delta.call >= max_calls; });
  for (const OutputDelta& delta : deltas) {
    if (delta.kind == OutputDelta::Kind::kContent) content += delta.text;
    if (delta.kind == OutputDelta::Kind::kReasoning) reasoning += delta.text;
    if (delta.kind == OutputDelta::Kind::kToolCall)
      calls.push_back({format("{}_{}_{}", call_id_prefix, event.choice, delta.call), delta.text, ""});
    if (delta.kind == OutputDelta::Kind::kToolArguments) calls.back().arguments += delta.text;
  }
  return deltas;
}

}  // namespace cheetah
