// SPDX-License-Identifier: MIT
#include "serve/api/reasoning_fields.h"

#include <array>
#include <climits>
#include <utility>

#include "base/format.h"
#include "model/model.h"
#include "model/template/chat_template.h"
#include "model/tokenizer/tokenizer.h"
#include "serve/api/failure.h"

namespace cheetah {
namespace {

// vLLM's, DashScope's, SGLang's and llama.cpp's.
constexpr std::array<std::string_view, 5> kBudgetFields = {"thinking_token_budget", "thinking_budget",
    "max_thinking_tokens", "reasoning_budget", "thinking_budget_tokens"};

// Tokens of thoughts for an effort, as gateways translate it for models that know only a budget.
constexpr std::array<std::pair<std::string_view, int64_t>, 5> kEfforts = {
    {{"none", 0}, {"minimal", 512}, {"low", 1024}, {"medium", 2048}, {"high", 4096}}};

void set_budget(ChatPlan& plan, const std::string& param, int64_t tokens) {
  if (tokens < 0) return;  // -1: no limit
  if (plan.reasoning_tokens && *plan.reasoning_tokens != tokens)
    refuse("conflicting_parameters", param,
        format(
            "{} and {} give different budgets for reasoning; send one of them", plan.reasoning_param, param));
  plan.reasoning_tokens = tokens;
  plan.reasoning_param = param;
}

bool template_reads(const ApiServices& services, std::string_view name) {
  const ChatTemplate* const source = services.model.chat_template();
  return source && source->source().find(name) != std::string_view::npos;
}

}  // namespace

void read_reasoning_budget(Fields& fields, ChatPlan& plan, std::vector<std::string>& warnings) {
  for (const std::string_view name : kBudgetFields)
    if (const auto tokens = fields.integer(name, -1, INT32_MAX)) set_budget(plan, std::string(name), *tokens);
  const OrderedJson* const thinking = fields.object("thinking");
  if (!thinking) return;
  Fields inner(*thinking, "thinking");
  const bool enabled = inner.required_string("type", 64) != "disabled";
  plan.input.variables["enable_thinking"] = enabled;
  const auto tokens = inner.integer("budget_tokens", 0, INT32_MAX);
  if (tokens && enabled) set_budget(plan, "thinking.budget_tokens", *tokens);
  inner.finish(false, warnings);
}

void read_reasoning_effort(
    const std::string& effort, const std::string& param, const ApiServices& services, ChatPlan& plan) {
  plan.input.variables["reasoning_effort"] = effort;
  if (effort == "none" && !plan.input.variables.contains("enable_thinking"))
    plan.input.variables["enable_thinking"] = false;
  if (plan.reasoning_tokens || template_reads(services, "reasoning_effort")) return;
  for (const auto& [name, tokens] : kEfforts)
    if (name == effort) {
      plan.reasoning_tokens = tokens;
      plan.reasoning_param = param;
      plan.reasoning_is_hint = true;
    }
}

void bound_reasoning(ChatPlan& plan, const ApiServices& services, std::vector<std::string>& warnings) {
  if (!plan.reasoning_tokens) return;
  const Tokenizer* const tokenizer = services.model.tokenizer();
  const OutputShape& shape = plan.shape;
  const bool thinks = shape.harmony || !shape.reasoning_close.empty();
  if (!tokenizer || !thinks || plan.request.grammar) {  // a grammar leaves no room for thoughts
    if (!plan.reasoning_is_hint) warnings.push_back(format("{} has no effect here", plan.reasoning_param));
    return;
  }
  const auto ids = [&](std::string_view text) {
    return tokenizer->encode(text, {.add_special = false, .parse_special = true});
  };
  ReasoningBudget budget{
      .tokens = *plan.reasoning_tokens, .open = {}, .end = {}, .closing = {}, .begins_open = false};
  if (shape.harmony) {
    budget.open = ids("<|channel|>analysis<|message|>");
    budget.end = ids("<|end|>");
    budget.closing = ids("<|end|><|start|>assistant<|channel|>final<|message|>");
  } else {
    budget.open = ids(shape.reasoning_open);
    budget.end = budget.closing = ids(shape.reasoning_close);
    budget.begins_open = shape.begins_in_reasoning;
  }
  plan.request.reasoning = std::move(budget);
}

}  // namespace cheetah
