// SPDX-License-Identifier: MIT
#include "serve/api/ollama.h"

#include "model/tokenizer/tokenizer.h"
#include "serve/api/api_fixture.h"

namespace cheetah {
namespace {

std::string chat(
    const std::string& more, const std::string& messages = R"([{"role":"user","content":"Hi"}])") {
  return R"({"model":"cub:latest","messages":)" + messages + (more.empty() ? "" : "," + more) + "}";
}

std::vector<Json> lines_of(const std::string& bytes) {
  std::vector<Json> lines;
  for (size_t at = 0; at < bytes.size();) {
    const size_t end = bytes.find('\n', at);
    lines.push_back(Json::parse(bytes.substr(at, end - at)));
    at = end + 1;
  }
  return lines;
}

TEST(Ollama, StreamsALinePerPieceAndTheNumbersAtTheEnd) {
  ApiCall call = accepted(parse_ollama_chat, chat(""));
  EXPECT_TRUE(call.stream);
  EXPECT_EQ(call.stream_type, kJsonLines);
  const std::vector<Json> lines = lines_of(answer_with(call, text_events({"Hel", "lo"})).bytes);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0]["model"], "cub:latest");
  EXPECT_EQ(lines[0]["message"], (Json{{"role", "assistant"}, {"content", "Hel"}}));
  EXPECT_EQ(lines[0]["done"], false);
  EXPECT_EQ(lines[2]["done"], true);
  EXPECT_EQ(lines[2]["done_reason"], "stop");
  EXPECT_EQ(lines[2]["eval_count"], 2);
  EXPECT_GT(lines[2]["prompt_eval_count"].get<int>(), 0);
  for (const char* name : {"total_duration", "load_duration", "prompt_eval_duration", "eval_duration"})
    EXPECT_TRUE(lines[2][name].is_number_integer()) << name;
}

TEST(Ollama, OptionsReachTheEngine) {
  const ApiCall call = accepted(parse_ollama_chat,
      chat(
          R"("stream":false,"options":{"temperature":0.5,"top_k":7,"repeat_penalty":1.2,"seed":9,"stop":["x"],
              "num_predict":33,"num_ctx":128})"));
  const GenerationRequest& request = call.requests.at(0);
  EXPECT_FLOAT_EQ(request.sampling.temperature, 0.5f);
  EXPECT_EQ(request.sampling.top_k, 7);
  EXPECT_FLOAT_EQ(request.sampling.repetition_penalty, 1.2f);
  EXPECT_EQ(request.seed, 9u);
  EXPECT_EQ(request.max_tokens, 33);
  EXPECT_EQ(request.stop, std::vector<std::string>{"x"});
  EXPECT_TRUE(call.warnings.empty());
}

TEST(Ollama, AnswersWholeAndInAForm) {
  const Json json =
      run(parse_ollama_chat, chat(R"("stream":false,"options":{"temperature":0,"num_predict":40},
              "format":{"type":"object","properties":{"a":{"enum":[1]}},"required":["a"],"additionalProperties":false})"))
          .json();
  EXPECT_EQ(Json::parse(json["message"]["content"].get<std::string>()), (Json{{"a", 1}}));
  EXPECT_EQ(json["done"], true);
}

TEST(Ollama, ToolsAndTheirResultsNeedNoIds) {
  const std::string messages = R"([{"role":"user","content":"Weather?"},
    {"role":"assistant","content":"","tool_calls":[{"function":{"name":"now","arguments":{"a":1}}}]},
    {"role":"tool","content":"noon","tool_name":"now"}])";
  const ApiCall call = accepted(
      parse_ollama_chat, chat(R"("tools":[{"type":"function","function":{"name":"now"}}])", messages));
  const std::string prompt = small_model()->tokenizer()->decode(call.requests.at(0).prompt, false);
  EXPECT_NE(prompt.find("Result of now: noon"), std::string::npos) << prompt;
}

TEST(Ollama, ReportsToolCallsWithObjectsForArguments) {
  ApiCall call = accepted(
      parse_ollama_chat, chat(R"("stream":false,"tools":[{"type":"function","function":{"name":"now"}}])"));
  const Json json = answer_with(call, text_events({R"({"name":"now","arguments":{"zone":"UTC"}})"})).json();
  EXPECT_EQ(json["message"]["tool_calls"][0]["function"]["arguments"], (Json{{"zone", "UTC"}}));
}

TEST(Ollama, GeneratesThroughTheTemplateOrRaw) {
  const auto prompt = [](const std::string& more) {
    const ApiCall call = accepted(parse_ollama_generate, R"({"model":"cub","prompt":"Hi")" + more + "}");
    return small_model()->tokenizer()->decode(call.requests.at(0).prompt, false);
  };
  EXPECT_EQ(prompt(R"(,"system":"Be brief.")"), "<|system|>Be brief.<|user|>Hi<|assistant|>");
  EXPECT_EQ(prompt(R"(,"raw":true)"), "Hi");
  ApiCall call = accepted(parse_ollama_generate, R"({"model":"cub","prompt":"Hi","stream":false})");
  const Json json = answer_with(call, text_events({"Hello"})).json();
  EXPECT_EQ(json["response"], "Hello");
  EXPECT_EQ(json["context"].back(), 20);
  EXPECT_EQ(
      Json::parse(accepted(parse_ollama_generate, R"({"model":"cub","keep_alive":0})").body)["done_reason"],
      "unload");
  EXPECT_EQ(accepted(parse_ollama_generate, R"({"model":"cub"})").body.find("\"done_reason\":\"load\"") ==
                std::string::npos,
      false);
}

TEST(Ollama, RefusesInItsOwnForm) {
  const ApiError images =
      refused(parse_ollama_chat, chat("", R"([{"role":"user","content":"What?","images":["aGk="]}])"));
  EXPECT_EQ(images.param, "messages[0].images");
  EXPECT_EQ(Json::parse(error_body(images, ApiStyle::kOllama))["error"], images.message);
  EXPECT_EQ(refused(parse_ollama_chat, R"({"model":"other","messages":[]})").status, 404);
  EXPECT_EQ(refused(parse_ollama_generate, R"({"model":"cub","prompt":"a","suffix":"b"})").param, "suffix");
  EXPECT_EQ(refused(parse_ollama_pull, R"({"model":"llama3"})").status, 404);
  EXPECT_EQ(refused(parse_ollama_change, "{}").status, 501);
}

TEST(Ollama, SaysWhatTheModelsAre) {
  const ApiServices services = small_services();
  const Json tags = Json::parse(ollama_tags({&services}));
  ASSERT_EQ(tags["models"].size(), 2u);
  EXPECT_EQ(tags["models"][0]["name"], "cub");
  EXPECT_EQ(tags["models"][0]["digest"].get<std::string>().size(), 64u);
  EXPECT_EQ(Json::parse(ollama_loaded({&services}))["models"][1]["model"], "gpt-4o");
  const Json shown = Json::parse(accepted(parse_ollama_show, R"({"model":"cub"})").body);
  EXPECT_GT(shown["model_info"]["general.parameter_count"].get<int64_t>(), 1000);
  EXPECT_EQ(Json::parse(accepted(parse_ollama_pull, R"({"name":"cub"})").body)["status"], "success");
}

TEST(AnyModelName, IsAnAliasThatListsDoNotShow) {
  ApiServices services = small_services();
  services.aliases = {"*"};
  EXPECT_EQ(accepted(parse_ollama_chat, R"({"model":"llama3.2","messages":[{"role":"user","content":"Hi"}]})",
                services)
                .requests.size(),
      1u);
  EXPECT_EQ(services.names(), std::vector<std::string>{"cub"});
}

}  // namespace
}  // namespace cheetah
