// SPDX-License-Identifier: MIT
#include "serve/api/reasoning_fields.h"

#include <gtest/gtest.h>

#include "serve/api/templated_model.h"

namespace cheetah {
namespace {

constexpr const char* kThinks =
    "{{ messages[0].content }}{% if enable_thinking is not defined or enable_thinking %}<think>\n{% endif %}"
    "{# </think> #}";

std::string chat(const std::string& more) {
  return R"({"model":"cub","max_tokens":60,"messages":[{"role":"user","content":"Hi"}])" + more + "}";
}

std::optional<int64_t> budget(ApiParser parser, const std::string& body, const ApiServices& services) {
  const ApiCall call = accepted(parser, body, services);
  if (call.requests.empty() || !call.requests[0].reasoning) return std::nullopt;
  EXPECT_TRUE(call.warnings.empty()) << call.warnings.front();
  return call.requests[0].reasoning->tokens;
}

TEST(ReasoningFields, EachServersNameIsABudget) {
  TemplatedModel model(kThinks);
  const ApiServices services = model.services();
  for (const char* name : {"thinking_token_budget", "thinking_budget", "max_thinking_tokens",
           "reasoning_budget", "thinking_budget_tokens"})
    EXPECT_EQ(budget(parse_chat_completion, chat(std::string(",\"") + name + "\":9"), services), 9) << name;
  EXPECT_EQ(
      budget(parse_chat_completion, chat(R"(,"thinking":{"type":"enabled","budget_tokens":7})"), services),
      7);
  EXPECT_EQ(
      budget(parse_message, chat(R"(,"thinking":{"type":"enabled","budget_tokens":2048})"), services), 2048);
  EXPECT_EQ(budget(parse_chat_completion, chat(R"(,"reasoning_effort":"low")"), services), 1024);
  EXPECT_EQ(
      budget(parse_response,
          R"({"model":"cub","input":"Hi","max_output_tokens":60,"reasoning":{"effort":"high"}})", services),
      4096);
  EXPECT_EQ(budget(parse_chat_completion, chat(R"(,"reasoning_budget":-1)"), services), std::nullopt);
  EXPECT_EQ(budget(parse_chat_completion, chat(""), services), std::nullopt);
  EXPECT_EQ(
      refused(parse_chat_completion, chat(R"(,"reasoning_budget":5,"thinking_budget":6)"), services).code,
      "conflicting_parameters");
}

TEST(ReasoningFields, WithoutThoughtsABudgetIsNamedAndAnEffortPassedOver) {
  EXPECT_EQ(accepted(parse_chat_completion, chat(R"(,"reasoning_budget":5)")).warnings,
      std::vector<std::string>{"reasoning_budget has no effect here"});
  EXPECT_TRUE(accepted(parse_chat_completion, chat(R"(,"reasoning_effort":"low")")).warnings.empty());
}

TEST(ReasoningFields, AnAnswerWithAFormHasNoThoughtsToEnd) {
  TemplatedModel model(kThinks);
  const std::string tool =
      R"(,"tools":[{"type":"function","function":{"name":"now","parameters":{"type":"object","properties":{}}}}],"tool_choice":"required")";
  for (const std::string& form : {tool, std::string(R"(,"guided_choice":["yes","no"])")}) {
    ApiCall call = accepted(parse_chat_completion, chat(form + R"(,"reasoning_budget":2)"), model.services());
    EXPECT_FALSE(call.requests[0].reasoning);
    EXPECT_EQ(call.warnings, std::vector<std::string>{"reasoning_budget has no effect here"});
  }
}

TEST(ReasoningFields, ThinkingEndsWhenTheBudgetIsUsedUp) {
  TemplatedModel model(kThinks);
  for (const int64_t tokens : {0, 3, 10}) {
    const Json json =
        run(accepted(parse_chat_completion,
                chat(R"(,"temperature":0,"ignore_eos":true,"reasoning_budget":)" + std::to_string(tokens)),
                model.services()))
            .json();
    const Json& message = json["choices"][0]["message"];
    const int64_t thought = json["usage"]["completion_tokens_details"]["reasoning_tokens"];
    const auto closing = std::ssize(small_model()->tokenizer()->encode("</think>", {}));
    EXPECT_GE(thought, tokens);
    EXPECT_LE(thought, tokens + closing) << "the marker itself comes while thinking";
    EXPECT_EQ(message.contains("reasoning_content"), tokens > 0);
    EXPECT_FALSE(message["content"].get<std::string>().empty()) << "it goes on to answer";
    EXPECT_EQ(message.dump().find("</think>"), std::string::npos);
  }
}

}  // namespace
}  // namespace cheetah
