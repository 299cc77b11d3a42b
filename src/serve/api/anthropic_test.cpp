// SPDX-License-Identifier: MIT
#include "serve/api/api_fixture.h"

namespace cheetah {
namespace {

const std::string kTool =
    R"("tools":[{"name":"pick","description":"Pick","input_schema":{"type":"object","properties":{"n":{"enum":[1]}},
       "required":["n"],"additionalProperties":false}}])";

std::string body(
    const std::string& more, const std::string& messages = R"([{"role":"user","content":"Hi"}])") {
  return R"({"model":"cub","max_tokens":80,"temperature":0,"messages":)" + messages +
         (more.empty() ? "" : "," + more) + "}";
}

std::string prompt_of(const std::string& text) {
  const ApiCall call = accepted(parse_message, text);
  return call.requests.empty() ? "" : small_model()->tokenizer()->decode(call.requests[0].prompt, false);
}

TEST(MessageTest, AnswersWithTheFieldsClientsRead) {
  ApiCall call = accepted(parse_message, body(R"("stop_sequences":["."])"));
  EXPECT_EQ(call.requests[0].stop, std::vector<std::string>{"."});
  std::vector<GenerationEvent> events = text_events({"Hello", " you"});
  events.back().stop_string = ".";
  const int64_t prompt = std::ssize(call.requests[0].prompt);
  EXPECT_EQ(answer_with(call, events).json(),
      (Json{{"id", "msg_test"}, {"type", "message"}, {"role", "assistant"}, {"model", "cub"},
          {"content", {{{"type", "text"}, {"text", "Hello you"}}}}, {"stop_reason", "stop_sequence"},
          {"stop_sequence", "."},
          {"usage",
              {{"input_tokens", prompt - 4}, {"cache_creation_input_tokens", 0},
                  {"cache_read_input_tokens", 4}, {"output_tokens", 2}, {"service_tier", "standard"}}}}));
}

TEST(MessageTest, WritesAGoldenStream) {
  ApiCall call = accepted(parse_message, body(R"("stream":true)"));
  const int64_t prompt = std::ssize(call.requests[0].prompt);
  const std::string usage = R"("cache_creation_input_tokens":0,"cache_read_input_tokens":)";
  EXPECT_EQ(answer_with(call, text_events({"Hel", "lo"})).bytes,
      "event: message_start\ndata: "
      "{\"type\":\"message_start\",\"message\":{\"id\":\"msg_test\",\"type\":\"message\","
      "\"role\":\"assistant\",\"model\":\"cub\",\"content\":[],\"stop_reason\":null,\"stop_sequence\":"
      "null,\"usage\":{"
      "\"input_tokens\":" +
          std::to_string(prompt) + "," + usage +
          "0,\"output_tokens\":1,\"service_tier\":\"standard\"}}}\n\n"
          "event: content_block_start\ndata: "
          "{\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":"
          "\"text\",\"text\":\"\"}}\n\n"
          "event: content_block_delta\ndata: "
          "{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\","
          "\"text\":\"Hel\"}}\n\n"
          "event: content_block_delta\ndata: "
          "{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\","
          "\"text\":\"lo\"}}\n\n"
          "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n"
          "event: message_delta\ndata: "
          "{\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\",\"stop_sequence\":"
          "null},\"usage\":{\"input_tokens\":" +
          std::to_string(prompt - 4) + "," + usage +
          "4,\"output_tokens\":2,\"service_tier\":\"standard\"}}\n\n"
          "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
}

TEST(MessageTest, StreamsTheCallsItAnswersWhole) {
  const std::string more = kTool + R"(,"tool_choice":{"type":"any","disable_parallel_tool_use":true})";
  const Json whole = run(parse_message, body(more)).json();
  EXPECT_EQ(whole["stop_reason"], "tool_use");
  ASSERT_EQ(whole["content"].size(), 1u);
  EXPECT_EQ(whole["content"][0],
      (Json{{"type", "tool_use"}, {"id", "toolu_test_0_0"}, {"name", "pick"}, {"input", {{"n", 1}}}}));
  std::string input;
  for (const Json& frame : run(parse_message, body(more + R"(,"stream":true)")).frames()) {
    if (frame["type"] == "content_block_start") {
      EXPECT_EQ(frame["content_block"]["input"], Json::object());
    }
    if (frame["type"] == "content_block_delta") input += frame["delta"]["partial_json"];
  }
  EXPECT_EQ(Json::parse(input), whole["content"][0]["input"]);
}

TEST(MessageTest, ReadsBlocksOfEveryKind) {
  const std::string prompt =
      prompt_of(body(R"("system":[{"type":"text","text":"Be kind","cache_control":{"type":"ephemeral"}}])",
          R"([{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
      {"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":""},{"type":"text","text":"c"},
        {"type":"tool_use","id":"t1","name":"pick","input":{"n":1}}]},
      {"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"r"}]},
        {"type":"text","text":"d"}]}])"));
  EXPECT_EQ(prompt,
      "<|system|>Be kind<|user|>a\nb<|assistant|>c\n{\"name\":\"pick\",\"arguments\":{\"n\":1}}<|endoftext|>"
      "<|user|>Result of pick: r<|user|>d<|assistant|>");
}

TEST(MessageTest, SaysThatABudgetOfThoughtsHasNoEffect) {
  const auto call = accepted(parse_message, body(R"("thinking":{"type":"enabled","budget_tokens":2048})"));
  EXPECT_EQ(call.warnings, std::vector<std::string>{"thinking.budget_tokens has no effect here"});
}

TEST(MessageTest, ALastMessageOfTheAssistantIsContinued) {
  EXPECT_EQ(prompt_of(body("", R"([{"role":"user","content":"Hi"},{"role":"assistant","content":"Once"}])")),
      "<|user|>Hi<|assistant|>Once");
}

TEST(MessageTest, CountsTheTokensOfThePrompt) {
  const ApiCall call =
      accepted(parse_count_tokens, R"({"model":"cub","messages":[{"role":"user","content":"Hi"}]})");
  EXPECT_EQ(
      Json::parse(call.body)["input_tokens"], accepted(parse_message, body("")).requests[0].prompt.size());
  const ApiCall tools = accepted(
      parse_count_tokens, R"({"model":"cub","messages":[{"role":"user","content":"Hi"}],)" + kTool + "}");
  EXPECT_GT(Json::parse(tools.body)["input_tokens"], Json::parse(call.body)["input_tokens"]);
}

TEST(MessageTest, TellsAFailureInTheStream) {
  ApiCall call = accepted(parse_message, body(R"("stream":true)"));
  const std::string bytes = call.writer->fail({.status = 503, .message = "busy"});
  EXPECT_EQ(bytes,
      "event: error\ndata: " + error_body({.status = 503, .message = "busy"}, ApiStyle::kAnthropic) + "\n\n");
  EXPECT_EQ(call.writer->finish(), "");
}

TEST(MessageTest, RefusesBadRequests) {
  const auto expect = [](const std::string& text, const std::string& code, const std::string& param) {
    const ApiError error = refused(parse_message, text);
    EXPECT_EQ(error.code, code) << text << error.message;
    EXPECT_EQ(error.param.value_or(""), param) << text << error.message;
  };
  expect(R"({"model":"cub","messages":[{"role":"user","content":"Hi"}]})", "missing_parameter", "max_tokens");
  expect(R"({"model":"cub","max_tokens":5})", "missing_parameter", "messages");
  expect(body("", "[]"), "invalid_value", "messages");
  expect(body("", R"([{"role":"wizard","content":"a"}])"), "invalid_value", "messages[0].role");
  expect(body("", R"([{"role":"user"}])"), "missing_parameter", "messages[0].content");
  expect(body("", R"([{"role":"user","content":[{"type":"image","source":{}}]}])"),
      "unsupported_content_part", "messages[0].content[0]");
  expect(body("", R"([{"role":"user","content":[{"type":"tool_result","tool_use_id":"x"}]}])"),
      "invalid_value", "messages[0].content[0].tool_use_id");
  expect(body(R"("tools":[{"name":"a b","input_schema":{}}])"), "invalid_value", "tools[0].name");
  expect(body(R"("tools":[{"name":"a","input_schema":5}])"), "invalid_type", "tools[0].input_schema");
  expect(body(kTool + R"(,"tool_choice":{"type":"tool","name":"b"})"), "invalid_value", "tool_choice.name");
  expect(body(R"("stop_sequences":[""])"), "invalid_value", "stop_sequences[0]");
}

}  // namespace
}  // namespace cheetah
