// SPDX-License-Identifier: MIT
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "model/template/chat_template.h"
#include "model/tokenizer/tokenizer.h"
#include "serve/api/templated_model.h"

namespace cheetah {
namespace {

constexpr const char* kHermesTemplate =
    "{% for t in tools %}{{ t | tojson }}\n{% endfor %}"
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}"
    "{% for c in m.tool_calls %}<tool_call>\n{\"name\": \"{{ c.function.name }}\", \"arguments\": "
    "{{ c.function.arguments | tojson }}}\n</tool_call>{% endfor %}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}";

const std::string kTools =
    R"("tools":[{"type":"function","function":{"name":"get_weather","description":"Weather of a city",
       "parameters":{"type":"object","properties":{"unit":{"enum":["C","F"]},"day":{"enum":[1,2]}},
       "required":["unit","day"],"additionalProperties":false}}},
       {"type":"function","function":{"name":"now"}}])";

std::string body(
    const std::string& more, const std::string& messages = R"([{"role":"user","content":"Hi"}])") {
  return R"({"model":"cub","max_tokens":200,"temperature":0,)" + kTools + R"(,"messages":)" + messages +
         (more.empty() ? "" : "," + more) + "}";
}

void expect_weather_call(const Json& choice) {
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  EXPECT_TRUE(choice["message"]["content"].is_null());
  ASSERT_EQ(choice["message"]["tool_calls"].size(), 1u);
  const Json& call = choice["message"]["tool_calls"][0];
  EXPECT_EQ(call["id"], "call_test_0_0");
  EXPECT_EQ(call["type"], "function");
  EXPECT_EQ(call["function"]["name"], "get_weather");
  const Json arguments = Json::parse(call["function"]["arguments"].get<std::string>());
  EXPECT_TRUE(arguments["unit"] == "C" || arguments["unit"] == "F");
  EXPECT_TRUE(arguments["day"] == 1 || arguments["day"] == 2);
}

const std::string kNamed = R"("tool_choice":{"type":"function","function":{"name":"get_weather"}})";

TEST(ChatToolsTest, ANamedToolIsCalledWithValidArguments) {
  expect_weather_call(run(parse_chat_completion, body(kNamed)).json()["choices"][0]);
}

TEST(ChatToolsTest, ANamedToolIsCalledInTheModelsOwnDialect) {
  TemplatedModel model(kHermesTemplate);
  ApiCall call = accepted(parse_chat_completion, body(kNamed), model.services());
  expect_weather_call(run(std::move(call)).json()["choices"][0]);
}

TEST(ChatToolsTest, SomeToolIsCalledWhenOneIsRequired) {
  const Json choice =
      run(parse_chat_completion, body(R"("tool_choice":"required","parallel_tool_calls":false)"))
          .json()["choices"][0];
  ASSERT_EQ(choice["message"]["tool_calls"].size(), 1u);
}

TEST(ChatToolsTest, StreamsTheCallsItAnswersWhole) {
  const Json whole = run(parse_chat_completion, body(kNamed)).json()["choices"][0];
  const std::vector<Json> frames = run(parse_chat_completion, body(kNamed + R"(,"stream":true)")).frames();
  Json call;
  std::string arguments;
  for (const Json& frame : frames) {
    if (!frame.is_object() || !frame["choices"][0]["delta"].contains("tool_calls")) continue;
    const Json& delta = frame["choices"][0]["delta"]["tool_calls"][0];
    EXPECT_EQ(delta["index"], 0);
    if (delta.contains("id")) {
      EXPECT_TRUE(call.is_null()) << "the name comes once";
      EXPECT_EQ(delta["function"]["arguments"], "");
      call = delta;
    } else {
      EXPECT_FALSE(delta["function"].contains("name"));
      arguments += delta["function"]["arguments"];
    }
  }
  EXPECT_EQ(call["id"], whole["message"]["tool_calls"][0]["id"]);
  EXPECT_EQ(call["function"]["name"], whole["message"]["tool_calls"][0]["function"]["name"]);
  EXPECT_EQ(arguments, whole["message"]["tool_calls"][0]["function"]["arguments"]);
  EXPECT_EQ(frames[frames.size() - 2]["choices"][0]["finish_reason"], "tool_calls");
}

TEST(ChatToolsTest, FindsCallsInFreeText) {
  TemplatedModel model(kHermesTemplate);
  ApiCall call = accepted(parse_chat_completion, body(R"("stream":true)"), model.services());
  const std::vector<Json> frames = answer_with(call,
      text_events({"Let me see.\n<tool", "_call>{\"name\": \"now\", \"argu", "ments\": {}}</tool_call>"}))
                                       .frames();
  std::string content;
  for (const Json& frame : frames)
    if (frame.is_object()) content += frame["choices"][0]["delta"].value("content", "");
  EXPECT_EQ(content, "Let me see.");
  EXPECT_EQ(frames[frames.size() - 2]["choices"][0]["finish_reason"], "tool_calls");
}

TEST(ChatToolsTest, OneCallIsEnoughWithoutParallelCalls) {
  TemplatedModel model(kHermesTemplate);
  ApiCall call = accepted(parse_chat_completion, body(R"("parallel_tool_calls":false)"), model.services());
  const Json json = answer_with(call,
      text_events({"<tool_call>{\"name\":\"now\"}</tool_call><tool_call>{\"name\":\"now\"}</tool_call>"}))
                        .json();
  EXPECT_EQ(json["choices"][0]["message"]["tool_calls"].size(), 1u);
  EXPECT_EQ(json["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"], "{}");
}

TEST(ChatToolsTest, ToolsReachTheTemplateInTheirOwnOrder) {
  TemplatedModel model(kHermesTemplate);
  const std::string prompt = model.prompt(body(""));
  EXPECT_TRUE(prompt.starts_with(
      R"({"type": "function", "function": {"name": "get_weather", "description": "Weather of a city", )"
      R"("parameters": {"type": "object", "properties": {"unit": )"))
      << prompt;
  EXPECT_EQ(model.prompt(body(R"("tool_choice":"none")")), "<user>Hi<assistant>");
}

TEST(ChatToolsTest, EarlierCallsAndTheirResultsReachTheTemplate) {
  TemplatedModel model(kHermesTemplate);
  const std::string messages = R"([{"role":"user","content":"Hi"},
    {"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function",
      "function":{"name":"now","arguments":"{\"b\":1,\"a\":2}"}}]},
    {"role":"tool","tool_call_id":"c1","content":[{"type":"text","text":"noon"}]}])";
  const std::string prompt = model.prompt(body(R"("tool_choice":"none")", messages));
  EXPECT_EQ(prompt,
      "<user>Hi<assistant><tool_call>\n{\"name\": \"now\", \"arguments\": {\"b\": 1, \"a\": "
      "2}}\n</tool_call><tool>noon<assistant>");
}

TEST(ChatToolsTest, TemplatesThatPrintArgumentsAsTextGetText) {
  TemplatedModel model(
      "{% for m in messages %}{% for c in m.tool_calls %}{{ 'tools ' + c.function.arguments }}{% endfor %}{% "
      "endfor %}.");
  const std::string messages = R"([{"role":"assistant","tool_calls":[{"id":"c1","type":"function",
      "function":{"name":"now","arguments":"{\"a\":2}"}}]}])";
  EXPECT_EQ(model.prompt(body("", messages)), R"(tools {"a":2}.)");
}

TEST(ChatToolsTest, IdsAreShortenedForTemplatesThatInsist) {
  TemplatedModel model(
      "{# tools #}{% for m in messages %}{% for c in m.tool_calls %}{% if c.id|length != 9 %}{{ "
      "raise_exception('length != 9') }}{% endif %}{{ c.id }} {% endfor %}{{ m.tool_call_id }}{% endfor %}");
  const std::string messages = R"([{"role":"assistant","tool_calls":[{"id":"call_test_0_0","type":"function",
      "function":{"name":"now","arguments":"{}"}}]},{"role":"tool","tool_call_id":"call_test_0_0","content":""}])";
  const std::string prompt = model.prompt(body("", messages));
  ASSERT_EQ(prompt.size(), 19u);
  EXPECT_EQ(prompt.substr(0, 9), prompt.substr(10));
}

TEST(ChatToolsTest, ATemplateWithoutToolsHearsOfThemInWords) {
  const std::string messages = R"([{"role":"user","content":"Hi"},
    {"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function",
      "function":{"name":"now","arguments":"{}"}}]},
    {"role":"tool","tool_call_id":"c1","content":"noon"}])";
  const ApiCall call = accepted(parse_chat_completion, body("", messages));
  const std::string prompt = small_model()->tokenizer()->decode(call.requests[0].prompt, false);
  EXPECT_TRUE(prompt.starts_with("<|system|>You can call these tools:\n{\"name\":\"get_weather\"")) << prompt;
  EXPECT_NE(
      prompt.find("<|assistant|>{\"name\":\"now\",\"arguments\":{}}<|endoftext|><|user|>Result of now: noon"),
      std::string::npos)
      << prompt;
}

TEST(ChatToolsTest, ReasoningIsToldApartWhenTheTemplateSpeaksOfIt) {
  TemplatedModel model("{{ messages[0].content }}{% if enable_thinking %}<think>\n{% endif %}{# </think> #}");
  ApiCall call = accepted(parse_chat_completion,
      R"({"model":"cub","messages":[{"role":"user","content":"Hi"}],
                              "chat_template_kwargs":{"enable_thinking":true}})",
      model.services());
  const Json json = answer_with(call, text_events({"hm", "m\n</think>\n\nYes", "."})).json();
  EXPECT_EQ(json["choices"][0]["message"]["reasoning_content"], "hmm");
  EXPECT_EQ(json["choices"][0]["message"]["content"], "Yes.");
  EXPECT_EQ(json["usage"]["completion_tokens_details"]["reasoning_tokens"], 2);
}

struct BadTools {
  std::string more, code, param, message;
};

TEST(ChatToolsTest, RefusesBadTools) {
  const auto tools = [](const std::string& list) { return R"("tools":)" + list; };
  const auto tool = [](const std::string& function) {
    return R"("tools":[{"type":"function","function":)" + function + "}]";
  };
  std::string many = "[";
  for (int i = 0; i < 129; ++i)
    many += (i > 0 ? "," : "") + std::string(R"({"type":"function","function":{"name":"f)") +
            std::to_string(i) + "\"}}";
  const std::vector<BadTools> cases = {
      {tools("{}"), "invalid_value", "tools", "an array"},
      {tools(many + "]"), "invalid_value", "tools", "128"},
      {tools(R"([{"type":"function","function":{"name":"a"}},{"type":"function","function":{"name":"a"}}])"),
          "invalid_value", "tools[1].function.name", "twice"},
      {tool(R"({"name":"a b"})"), "invalid_value", "tools[0].function.name", "must match"},
      {tool(R"({"name":"a","parameters":5})"), "invalid_type", "tools[0].function.parameters", "JSON schema"},
      {tool(R"({})"), "missing_parameter", "tools[0].function.name", "required"},
      {tools(R"([{"type":"web_search"}])"), "invalid_value", "tools[0].type", "function"},
      {tools(R"([{"type":"function"}])"), "missing_parameter", "tools[0].function", "required"},
      {R"("tool_choice":"required")", "invalid_value", "tool_choice", "tools is empty"},
      {R"("tool_choice":"sometimes")", "invalid_value", "tool_choice", "none, auto, required"},
      {tool(R"({"name":"a"})") + R"(,"tool_choice":{"type":"function","function":{"name":"b"}})",
          "invalid_value", "tool_choice.function.name", "not among tools"},
      {tool(R"({"name":"a"})") + R"(,"tool_choice":"required","response_format":{"type":"json_object"})",
          "conflicting_parameters", "tool_choice", "another format"},
      {tool(R"({"name":"a","parameters":{"type":"objct"}})") + R"(,"tool_choice":"required")",
          "invalid_grammar", "tools", "at /type"},
  };
  for (const BadTools& bad : cases) {
    const ApiError error = refused(parse_chat_completion,
        R"({"model":"cub","messages":[{"role":"user","content":"Hi"}],)" + bad.more + "}");
    EXPECT_EQ(error.code, bad.code) << bad.more << error.message;
    EXPECT_EQ(error.param.value_or(""), bad.param) << bad.more << error.message;
    EXPECT_NE(error.message.find(bad.message), std::string::npos) << error.message;
  }
}

}  // namespace
}  // namespace cheetah
