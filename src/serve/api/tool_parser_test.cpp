// SPDX-License-Identifier: MIT
#include "serve/api/tool_parser.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "serve/api/output_parser.h"

namespace cheetah {
namespace {

using Kind = OutputDelta::Kind;

const ToolDialect& dialect(std::string_view name) {
  for (const ToolDialect& row : all_dialects())
    if (row.name == name) return row;
  throw std::logic_error("no such dialect");
}

std::shared_ptr<const ToolSet> weather_tools() {
  auto set = std::make_shared<ToolSet>();
  set->tools = {{"get_weather", "", false}, {"now", "", false}};
  set->definitions = OrderedJson::parse(R"([
    {"type":"function","function":{"name":"get_weather","parameters":{"type":"object","properties":
      {"city":{"type":"string"},"days":{"type":"integer"}}}}},
    {"type":"function","function":{"name":"now"}}])");
  return set;
}

// An answer in one line: content as it is, [reasoning], name(arguments).
std::string joined(const std::vector<OutputDelta>& deltas) {
  std::string content, reasoning;
  std::vector<std::pair<std::string, std::string>> calls;
  for (const OutputDelta& delta : deltas) {
    if (delta.kind == Kind::kContent) content += delta.text;
    if (delta.kind == Kind::kReasoning) reasoning += delta.text;
    if (delta.kind == Kind::kToolCall) {
      EXPECT_EQ(delta.call, std::ssize(calls));
      calls.emplace_back(delta.text, "");
    }
    if (delta.kind == Kind::kToolArguments) {
      EXPECT_EQ(delta.call, std::ssize(calls) - 1);
      if (!calls.empty()) calls.back().second += delta.text;
    }
  }
  std::string result = reasoning.empty() ? content : "[" + reasoning + "]" + content;
  for (const auto& [name, arguments] : calls) result += "|" + name + "(" + arguments + ")";
  return result;
}

OutputShape shape_of(std::string_view name) {
  OutputShape shape;
  shape.reasoning_open = "<think>";
  shape.reasoning_close = "</think>";
  shape.dialect = &dialect(name);
  shape.tools = weather_tools();
  return shape;
}

std::string parse(const OutputShape& shape, const std::vector<std::string>& pieces) {
  OutputParser parser(shape);
  std::vector<OutputDelta> deltas;
  for (const std::string& piece : pieces) parser.push(piece, deltas);
  parser.finish(false, deltas);
  return joined(deltas);
}

TEST(OutputParserTest, ACallCutByALimitIsNotMadeWhole) {
  for (const auto& [name, text] : std::vector<std::pair<std::string_view, std::string>>{
           {"hermes", "<tool_call>\n{\"name\": \"get_weather\""},
           {"hermes", "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Par"},
           {"glm", "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>"}}) {
    OutputParser parser(shape_of(name));
    std::vector<OutputDelta> deltas;
    parser.push(text, deltas);
    parser.finish(true, deltas);
    std::string arguments;
    bool called = false;
    for (const OutputDelta& delta : deltas) {
      called = called || delta.kind == OutputDelta::Kind::kToolCall;
      if (delta.kind == OutputDelta::Kind::kToolArguments) arguments += delta.text;
    }
    EXPECT_TRUE(called) << text;
    EXPECT_FALSE(Json::accept(arguments)) << arguments;
  }
}

struct Example {
  std::string_view dialect;
  std::string text, expected;
};

const std::vector<Example>& examples() {
  static const std::vector<Example> list = {
      {"hermes", "Just words.", "Just words."},
      {"hermes", "Words at the end \n", "Words at the end \n"},
      {"hermes",
          "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}\n</tool_call>",
          "|get_weather({\"city\": \"Paris\"})"},
      {"hermes", "Let me see.\n<tool_call>{\"name\":\"now\",\"arguments\":{}}</tool_call>",
          "Let me see.|now({})"},
      {"hermes",
          "<tool_call>{\"name\":\"now\"}</"
          "tool_call>\n<tool_call>{\"arguments\":{\"a\":[1,\"}\"]},\"name\":\"x\"}</tool_call> done",
          "done|now({})|x({\"a\":[1,\"}\"]})"},
      {"hermes", "<tool_call>{\"name\":\"now\",\"arguments\":\"{\\\"a\\\":1}\"}</tool_call>",
          "|now({\"a\":1})"},
      {"hermes", "<tool_call>{\"name\":\"now\",\"arguments\":null}</tool_call>", "|now({})"},
      {"hermes", "<tool_call>nonsense</tool_call>", "<tool_call>nonsense</tool_call>"},
      {"hermes", "<tool_call>{\"other\":1}</tool_call>", "<tool_call>{\"other\":1}</tool_call>"},
      {"hermes", "<tool_call><tool_call>{\"name\":\"now\"}</tool_call>", "<tool_call>|now({})"},
      {"hermes", "1 < 2 <tool_cal", "1 < 2 <tool_cal"},
      {"hermes", "<tool_call>{\"name\":\"get_weather\",\"arguments\":{\"city\":\"Par",
          "|get_weather({\"city\":\"Par)"},
      {"hermes", "<tool_call>{\"name\":\"get_we", "<tool_call>{\"name\":\"get_we"},
      {"hermes", "<think>\nhm\n\n</think>\n\n<tool_call>{\"name\":\"now\"}</tool_call>", "[hm]|now({})"},
      {"hermes", " <think> a </think> b", "[a]b"},
      {"hermes", "<thin air", "<thin air"},
      {"hermes", "<think>never ends", "[never ends]"},
      {"hermes",
          "<tool_call>{\"type\":\"function\",\"function\":{\"name\":\"now\",\"arguments\":{\"a\":1}}}</"
          "tool_call>",
          "|now({\"a\":1})"},
      {"mistral",
          "[TOOL_CALLS][{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Rome\"}, \"id\": "
          "\"abcdefghi\"}, "
          "{\"name\": \"now\", \"arguments\": {}}]",
          "|get_weather({\"city\": \"Rome\"})|now({})"},
      {"mistral", "Hi [TOOL", "Hi [TOOL"},
      {"mistral-args", "[TOOL_CALLS]get_weather[ARGS]{\"city\": \"Rome\"}[TOOL_CALLS]now[CALL_ID]x1[ARGS]{}",
          "|get_weather({\"city\": \"Rome\"})|now({})"},
      {"llama3", "{\"name\": \"get_weather\", \"parameters\": {\"city\": \"Oslo\"}}",
          "|get_weather({\"city\": \"Oslo\"})"},
      {"llama3", "<|python_tag|>{\"name\": \"now\", \"parameters\": {}}; {\"name\": \"now\"}",
          "|now({})|now({})"},
      {"llama3", "{\"name\": \"somebody\", \"age\": 5}", "{\"name\": \"somebody\", \"age\": 5}"},
      {"llama3", " {\"answer\": 42}", " {\"answer\": 42}"},
      {"llama3", "<|python_tag|>print(1)", "<|python_tag|>print(1)"},
      {"llama-pythonic", "[get_weather(city=\"Paris\", days=3)]",
          "|get_weather({\"city\": \"Paris\", \"days\": 3})"},
      {"llama-pythonic", "[now(), get_weather(city='it\\'s, (x)', on=True, at=None)]",
          "|now({})|get_weather({\"city\": \"it's, (x)\", \"on\": true, \"at\": null})"},
      {"llama-pythonic",
          "<|python_start|>[get_weather(a=[1, 'b', {'c': (2.5, -1)}], s=\"\"\"q\"x\"\"\")]<|python_end|> ok",
          "ok|get_weather({\"a\": [1, \"b\", {\"c\": [2.5, -1]}], \"s\": \"q\\\"x\"})"},
      {"llama-pythonic", "[1] is a citation", "[1] is a citation"},
      {"llama-pythonic", "[unknown(a=1)]", "[unknown(a=1)]"},
      {"llama-pythonic", "[get_weather(city=Paris, e=\"\", u='\\u00e9\\n')]",
          "|get_weather({\"city\": \"Paris\", \"e\": \"\", \"u\": \"é\\n\"})"},
      {"llama-pythonic", "[get_weather(city=\"Par", "|get_weather({})"},
      {"llama-pythonic", "[get_weather(city=\"a\", days=", "|get_weather({\"city\": \"a\")"},
      {"llama-pythonic", "Just words [now()]", "Just words [now()]"},
      {"lfm2", "Let me look.<|tool_call_start|>[get_weather(city=\"Rome\")]<|tool_call_end|>",
          "Let me look.|get_weather({\"city\": \"Rome\"})"},
      {"lfm2", "<|tool_call_start|>[]<|tool_call_end|>", "<|tool_call_start|>[]<|tool_call_end|>"},
      {"json",
          "{\"name\": \"now\", \"arguments\": {}}\n{\"name\": \"get_weather\", \"arguments\": {\"city\": "
          "\"a\"}}",
          "|now({})|get_weather({\"city\": \"a\"})"},
      {"json", "{\"name\": \"now\"} and words", "and words|now({})"},
      {"deepseek-v3.1",
          "Sure.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{\"city\": "
          "\"a\"}<｜tool▁call▁end｜>"
          "<｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
          "Sure.|get_weather({\"city\": \"a\"})|now({})"},
      {"deepseek-r1",
          "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>now\n```json\n{\"a\": "
          "1}\n```<｜tool▁call▁end｜>\n"
          "<｜tool▁calls▁end｜>",
          "|now({\"a\": 1})"},
      {"kimi",
          "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>{"
          "\"city\": "
          "\"a\"}<|tool_call_end|><|tool_calls_section_end|>",
          "|get_weather({\"city\": \"a\"})"},
      {"functionary", ">>>all\nHello>>>get_weather\n{\"city\": \"a\"}",
          "Hello|get_weather({\"city\": \"a\"})"},
      {"llama-function", "<function=get_weather>{\"city\": \"a\"}</function> ok",
          "ok|get_weather({\"city\": \"a\"})"},
      {"llama-function", "<function=get weather>{}</function>", "<function=get weather>{}</function>"},
      {"qwen3-coder",
          "I "
          "look.\n<tool_call>\n<function=get_weather>\n<parameter=city>\nNew\nYork\n</"
          "parameter>\n<parameter=days>\n3\n"
          "</parameter>\n</function>\n</tool_call>",
          "I look.|get_weather({\"city\": \"New\\nYork\", \"days\": 3})"},
      {"qwen3-coder", "<tool_call>\n<function=now>\n</function>\n</tool_call>", "|now({})"},
      {"glm",
          "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>3</arg_value>\n<arg_key>days</arg_key>\n"
          "<arg_value>3</arg_value>\n</tool_call>",
          "|get_weather({\"city\": \"3\", \"days\": 3})"},
      {"minimax",
          "<minimax:tool_call>\n<invoke name=\"get_weather\">\n<parameter "
          "name=\"city\">a</parameter>\n</invoke>\n"
          "</minimax:tool_call>",
          "|get_weather({\"city\": \"a\"})"},
      {"minicpm",
          "<function name=\"get_weather\"><param name=\"city\">a</param><param "
          "name=\"days\">2</param></function>",
          "|get_weather({\"city\": \"a\", \"days\": 2})"},
      {"deepseek-v4",
          "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"get_weather\">\n<｜DSML｜parameter name=\"city\" "
          "string=\"true\">a</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>",
          "|get_weather({\"city\": \"a\"})"},
      {"gigachat", "<|function_call|>{\"name\": \"now\", \"arguments\": {}}", "|now({})"},
      {"command-r",
          "<|START_ACTION|>[\n{\"tool_call_id\": \"0\", \"tool_name\": \"now\", \"parameters\": "
          "{}}\n]<|END_ACTION|>",
          "|now({})"},
      {"granite", "<|tool_call|>[{\"name\": \"now\", \"arguments\": {}}]", "|now({})"},
      {"nemotron", "<TOOLCALL>[{\"name\": \"now\", \"arguments\": {}}]</TOOLCALL>", "|now({})"},
      {"firefunction", " functools[{\"name\": \"now\", \"arguments\": {}}]", "|now({})"},
  };
  return list;
}

TEST(ToolParserTest, ReadsEveryDialect) {
  for (const Example& example : examples())
    EXPECT_EQ(parse(shape_of(example.dialect), {example.text}), example.expected)
        << example.dialect << ": " << example.text;
}

TEST(ToolParserTest, ReadsTheSameByteByByte) {
  for (const Example& example : examples()) {
    std::vector<std::string> bytes;
    for (const char c : example.text) bytes.emplace_back(1, c);
    EXPECT_EQ(parse(shape_of(example.dialect), bytes), example.expected)
        << example.dialect << ": " << example.text;
  }
}

TEST(ToolParserTest, ReadsTheSameForEveryCutInTwo) {
  for (const Example& example : examples())
    for (size_t cut = 0; cut <= example.text.size(); ++cut)
      ASSERT_EQ(parse(shape_of(example.dialect), {example.text.substr(0, cut), example.text.substr(cut)}),
          example.expected)
          << example.dialect << " cut at " << cut;
}

// Texts that fit no dialect well: pieces of marks, calls and words in any order.
rc::Gen<std::string> fragments(const ToolDialect& row) {
  std::vector<std::string> parts = {" ", "\n", "{", "}", "[", "]", ",", "word", "\"", "<",
      "{\"name\": \"now\"", "\"arguments\": {\"a\": 1}", ", ", "}}", "now", "get_weather", "<think>",
      "</think>", ">", "\\", "é", "`", "{}", ":"};
  for (const std::string_view mark :
      {row.trigger, row.close, row.after_name, row.open_parameter, row.after_key, row.close_parameter}) {
    if (mark.empty()) continue;
    parts.emplace_back(mark);
    parts.emplace_back(mark.substr(0, mark.size() / 2));
  }
  for (const std::string_view mark : row.wrappers) parts.emplace_back(mark);
  return rc::gen::map(rc::gen::container<std::vector<std::string>>(rc::gen::elementOf(parts)),
      [](const std::vector<std::string>& chosen) {
        std::string text;
        for (const std::string& part : chosen) text += part;
        return text;
      });
}

TEST(ToolParserTest, NoCuttingOfAnyTextChangesWhatIsRead) {
  for (const ToolDialect& row : all_dialects()) {
    const OutputShape shape = shape_of(row.name);
    const bool fine = rc::check(std::string(row.name), [&] {
      const std::string text = *fragments(row);
      std::vector<std::string> pieces;
      for (size_t at = 0; at < text.size();) {
        const auto length = static_cast<size_t>(*rc::gen::inRange<int>(1, 9));
        pieces.push_back(text.substr(at, length));
        at += length;
      }
      RC_ASSERT(parse(shape, {text}) == parse(shape, pieces));
    });
    EXPECT_TRUE(fine) << row.name;
  }
}

OutputShape harmony() {
  OutputShape shape;
  shape.harmony = true;
  return shape;
}

TEST(HarmonyParserTest, TellsChannelsApart) {
  const std::string text =
      "<|channel|>analysis<|message|>hm <b><|end|><|start|>assistant<|channel|>commentary "
      "to=functions.get_weather "
      "<|constrain|>json<|message|>{\"city\":\"a\"}<|call|><|start|>assistant<|channel|>final<|message|>Yes "
      "<";
  EXPECT_EQ(parse(harmony(), {text}), "[hm <b>]Yes <|get_weather({\"city\":\"a\"})");
  EXPECT_EQ(parse(harmony(), {"Just words."}), "Just words.");
  EXPECT_EQ(parse(harmony(), {"<|channel|>commentary to=functions.now<|message|>"}), "|now({})");
  EXPECT_EQ(parse(harmony(), {"<|channel|>final"}), "");
}

TEST(HarmonyParserTest, NoCuttingOfAnyTextChangesWhatIsRead) {
  const std::vector<std::string> parts = {"<|channel|>", "analysis", "final", "<|message|>", "<|end|>",
      "<|call|>", "<|start|>", "assistant", " to=functions.x ", "<|", "words", " ", "{}", "\n"};
  EXPECT_TRUE(rc::check([&] {
    std::string text;
    for (const std::string& part : *rc::gen::container<std::vector<std::string>>(rc::gen::elementOf(parts)))
      text += part;
    std::vector<std::string> pieces;
    for (size_t at = 0; at < text.size();) {
      const auto length = static_cast<size_t>(*rc::gen::inRange<int>(1, 9));
      pieces.push_back(text.substr(at, length));
      at += length;
    }
    RC_ASSERT(parse(harmony(), {text}) == parse(harmony(), pieces));
  }));
}

TEST(ToolParserTest, APromptMayHaveOpenedTheReasoningOrTheCall) {
  OutputShape shape = shape_of("hermes");
  shape.begins_in_reasoning = true;
  EXPECT_EQ(parse(shape, {"\nhm</thi", "nk>yes"}), "[hm]yes");
  shape = shape_of("functionary");
  shape.begins_in_call = true;
  EXPECT_EQ(parse(shape, {"get_weather\n{\"city\": \"a\"}"}), "|get_weather({\"city\": \"a\"})");
  EXPECT_EQ(parse(shape, {"all\nHi"}), "Hi");
}

TEST(ToolDialectTest, IsReadOffTheTemplate) {
  EXPECT_EQ(find_dialect("{% for tool in tools %}<tool_call>{{ x }}</tool_call>").name, "hermes");
  EXPECT_EQ(find_dialect("[TOOL_CALLS][ARGS]").name, "mistral-args");
  EXPECT_EQ(find_dialect("{{ messages }}").name, "json");
}

}  // namespace
}  // namespace cheetah
