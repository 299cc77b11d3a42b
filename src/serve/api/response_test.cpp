// SPDX-License-Identifier: MIT
#include "serve/api/api_fixture.h"

namespace cheetah {
namespace {

const std::string kTool =
    R"("tools":[{"type":"function","name":"pick","parameters":{"type":"object","properties":{"n":{"enum":[1]}},
       "required":["n"],"additionalProperties":false},"strict":true}])";

std::string body(const std::string& more, const std::string& input = R"("Hi")") {
  return R"({"model":"cub","temperature":0,"input":)" + input + (more.empty() ? "" : "," + more) + "}";
}

std::vector<std::string> types(const std::vector<Json>& frames) {
  std::vector<std::string> result;
  for (const Json& frame : frames)
    if (result.empty() || result.back() != frame["type"]) result.push_back(frame["type"]);
  return result;
}

TEST(ResponseTest, AnswersWithTheFieldsClientsRead) {
  const Json json =
      run(parse_response, body(R"("max_output_tokens":8,"instructions":"Be brief","top_p":0.9)")).json();
  EXPECT_EQ(json["id"], "resp_test");
  EXPECT_EQ(json["object"], "response");
  EXPECT_EQ(json["status"], "incomplete");
  EXPECT_EQ(json["incomplete_details"]["reason"], "max_output_tokens");
  EXPECT_EQ(json["instructions"], "Be brief");
  EXPECT_EQ(json["top_p"], 0.9);
  ASSERT_EQ(json["output"].size(), 1u);
  EXPECT_EQ(json["output"][0]["type"], "message");
  EXPECT_EQ(json["output"][0]["content"][0]["type"], "output_text");
  EXPECT_FALSE(json["output"][0]["content"][0]["text"].get<std::string>().empty());
  EXPECT_EQ(json["usage"]["output_tokens"], 8);
  EXPECT_EQ(json["usage"]["input_tokens_details"]["cached_tokens"], 0);
}

TEST(ResponseTest, StreamsTheOfficialEventsInOrder) {
  ApiCall call = accepted(parse_response, body(R"("stream":true)"));
  const std::vector<Json> frames = answer_with(call, text_events({"Hel", "lo"})).frames();
  EXPECT_EQ(types(frames),
      (std::vector<std::string>{"response.created", "response.in_progress", "response.output_item.added",
          "response.content_part.added", "response.output_text.delta", "response.output_text.done",
          "response.content_part.done", "response.output_item.done", "response.completed"}));
  for (size_t i = 0; i < frames.size(); ++i) EXPECT_EQ(frames[i]["sequence_number"], i);
  EXPECT_EQ(frames[0]["response"]["status"], "in_progress");
  EXPECT_EQ(frames[6]["text"], "Hello");
  EXPECT_EQ(frames[6]["item_id"], frames[4]["item_id"]);
  EXPECT_EQ(frames.back()["response"]["output"][0]["content"][0]["text"], "Hello");
  EXPECT_EQ(frames.back()["response"]["usage"]["output_tokens"], 2);
}

TEST(ResponseTest, WritesAGoldenDelta) {
  ApiCall call = accepted(parse_response, body(R"("stream":true)"));
  const std::string bytes = answer_with(call, text_events({"a\"b"})).bytes;
  EXPECT_NE(
      bytes.find(
          "event: response.output_text.delta\n"
          "data: {\"type\":\"response.output_text.delta\",\"sequence_number\":4,\"item_id\":"
          "\"msg_test_0\",\"output_index\":0,\"content_index\":0,\"delta\":\"a\\\"b\",\"logprobs\":[]}\n\n"),
      std::string::npos)
      << bytes;
}

TEST(ResponseTest, AnIdOfTheClientsCannotBreakTheFrames) {
  CallFacts facts = test_facts();
  facts.id = "a\"b{";
  for (const ApiParser parser : {parse_response, parse_chat_completion, parse_message}) {
    ApiResult result = parser(R"({"model":"cub","max_tokens":5,"input":"Hi","stream":true,
        "messages":[{"role":"user","content":"Hi"}]})",
        small_services(), facts);
    ApiCall& call = std::get<ApiCall>(result);
    EXPECT_GE(answer_with(call, text_events({"x"})).frames().size(), 4u);
  }
}

TEST(ResponseTest, StreamsTheCallsItAnswersWhole) {
  const std::string more = kTool + R"(,"tool_choice":"required","parallel_tool_calls":false)";
  const Json whole = run(parse_response, body(more)).json();
  ASSERT_EQ(whole["output"].size(), 1u);
  EXPECT_EQ(whole["output"][0]["type"], "function_call");
  EXPECT_EQ(whole["output"][0]["name"], "pick");
  EXPECT_EQ(Json::parse(whole["output"][0]["arguments"].get<std::string>()), (Json{{"n", 1}}));
  const std::vector<Json> frames = run(parse_response, body(more + R"(,"stream":true)")).frames();
  EXPECT_EQ(types(frames),
      (std::vector<std::string>{"response.created", "response.in_progress", "response.output_item.added",
          "response.function_call_arguments.delta", "response.function_call_arguments.done",
          "response.output_item.done", "response.completed"}));
  std::string arguments;
  for (const Json& frame : frames)
    if (frame["type"] == "response.function_call_arguments.delta") arguments += frame["delta"];
  EXPECT_EQ(arguments, whole["output"][0]["arguments"]);
  EXPECT_EQ(frames.back()["response"]["output"], whole["output"]);
}

TEST(ResponseTest, ReadsItemsOfEveryKind) {
  const ApiCall call =
      accepted(parse_response, body(kTool, R"([{"role":"user","content":[{"type":"input_text","text":"Hi"}]},
      {"type":"reasoning","summary":[]},{"type":"function_call","call_id":"c1","name":"pick","arguments":"{\"n\":1}"},
      {"type":"function_call_output","call_id":"c1","output":"done"},
      {"type":"message","role":"assistant","content":[{"type":"output_text","text":"Yes"}]}])"));
  const std::string prompt = small_model()->tokenizer()->decode(call.requests[0].prompt, false);
  EXPECT_NE(
      prompt.find(
          "<|user|>Hi<|assistant|>{\"name\":\"pick\",\"arguments\":{\"n\":1}}<|endoftext|><|user|>Result "
          "of pick: done<|assistant|>Yes"),
      std::string::npos)
      << prompt;
}

TEST(ResponseTest, FollowsATextFormat) {
  const Json json =
      run(parse_response, body(R"("text":{"format":{"type":"json_schema","name":"x","schema":{"const":7}}})"))
          .json();
  EXPECT_EQ(json["output"][0]["content"][0]["text"], "7");
  EXPECT_EQ(json["text"]["format"]["name"], "x");
  EXPECT_EQ(json["status"], "completed");
}

TEST(ResponseTest, TellsAFailureInTheStream) {
  ApiCall call = accepted(parse_response, body(R"("stream":true)"));
  std::vector<GenerationEvent> events = text_events({"a"}, 0, FinishReason::kError);
  events.back().error = "no";
  const std::vector<Json> frames = answer_with(call, events).frames();
  EXPECT_EQ(frames.back()["type"], "response.failed");
  EXPECT_EQ(frames.back()["response"]["error"]["message"], "no");
}

TEST(ResponseTest, RefusesWhatItCannotDo) {
  const auto expect = [](const std::string& text, const std::string& code, const std::string& param) {
    const ApiError error = refused(parse_response, text);
    EXPECT_EQ(error.code, code) << text << error.message;
    EXPECT_EQ(error.param.value_or(""), param) << text << error.message;
  };
  expect(R"({"model":"cub"})", "missing_parameter", "input");
  expect(body("", "[]"), "invalid_type", "input");
  expect(body("", "5"), "invalid_type", "input");
  expect(body("", R"([{"role":"wizard","content":"a"}])"), "invalid_value", "input[0].role");
  expect(body("", R"([{"role":"user"}])"), "missing_parameter", "input[0].content");
  expect(body("", R"([{"type":"poem"}])"), "invalid_value", "input[0].type");
  expect(body("", R"([{"type":"function_call_output","call_id":"x","output":""}])"), "invalid_value",
      "input[0].call_id");
  expect(body("", R"([{"role":"user","content":[{"type":"input_image"}]}])"), "unsupported_content_part",
      "input[0].content[0]");
  expect(body(R"("previous_response_id":"r")"), "unsupported_parameter", "previous_response_id");
  expect(body(R"("background":true)"), "unsupported_parameter", "background");
  expect(body(R"("n":2)"), "unsupported_parameter", "n");
  expect(body(R"("max_output_tokens":0)"), "invalid_value", "max_output_tokens");
  expect(body(R"("text":{"format":{"type":"xml"}})"), "invalid_value", "text.format.type");
}

}  // namespace
}  // namespace cheetah
