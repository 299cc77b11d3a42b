// SPDX-License-Identifier: MIT
#include "serve/api/api_fixture.h"

namespace cheetah {
namespace {

std::string chat(
    const std::string& more, const std::string& messages = R"([{"role":"user","content":"Hi"}])") {
  return R"({"model":"cub","messages":)" + messages + (more.empty() ? "" : "," + more) + "}";
}

TEST(ChatCompletionTest, AnswersWithTheFieldsClientsRead) {
  const Json json = run(parse_chat_completion, chat(R"("max_tokens":8,"temperature":0)")).json();
  EXPECT_EQ(json["id"], "chatcmpl-test");
  EXPECT_EQ(json["object"], "chat.completion");
  EXPECT_EQ(json["created"], 1700000000);
  EXPECT_EQ(json["model"], "cub");
  EXPECT_EQ(json["system_fingerprint"], "fp_test");
  EXPECT_EQ(json["service_tier"], "default");
  ASSERT_EQ(json["choices"].size(), 1u);
  const Json& choice = json["choices"][0];
  EXPECT_EQ(choice["index"], 0);
  EXPECT_EQ(choice["message"]["role"], "assistant");
  EXPECT_FALSE(choice["message"]["content"].get<std::string>().empty());
  EXPECT_TRUE(choice["message"]["refusal"].is_null());
  EXPECT_TRUE(choice["logprobs"].is_null());
  EXPECT_EQ(choice["finish_reason"], "length");
  EXPECT_EQ(json["usage"]["completion_tokens"], 8);
  EXPECT_EQ(json["usage"]["total_tokens"], 8 + json["usage"]["prompt_tokens"].get<int>());
  EXPECT_EQ(json["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
}

TEST(ChatCompletionTest, StreamsWhatItAnswersWhole) {
  const std::string options = R"("max_tokens":12,"temperature":0,"n":2,"logprobs":true,"top_logprobs":2)";
  const Json whole = run(parse_chat_completion, chat(options)).json();
  const std::vector<Json> frames =
      run(parse_chat_completion, chat(options + R"(,"stream":true,"stream_options":{"include_usage":true})"))
          .frames();
  std::string content[2];
  Json tokens[2] = {Json::array(), Json::array()};
  std::string reasons[2];
  for (size_t i = 0; i + 2 < frames.size(); ++i) {
    EXPECT_TRUE(frames[i]["usage"].is_null());
    EXPECT_EQ(frames[i]["id"], "chatcmpl-test");
    EXPECT_EQ(frames[i]["object"], "chat.completion.chunk");
    const Json& choice = frames[i]["choices"][0];
    const size_t index = choice["index"];
    content[index] += choice["delta"].value("content", "");
    if (choice["logprobs"].is_object())
      for (const Json& token : choice["logprobs"]["content"]) tokens[index].push_back(token);
    if (!choice["finish_reason"].is_null()) reasons[index] = choice["finish_reason"];
  }
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(content[i], whole["choices"][i]["message"]["content"]);
    EXPECT_EQ(tokens[i], whole["choices"][i]["logprobs"]["content"]);
    EXPECT_EQ(reasons[i], whole["choices"][i]["finish_reason"]);
  }
  const Json& usage = frames[frames.size() - 2];
  EXPECT_EQ(usage["choices"], Json::array());
  EXPECT_EQ(usage["usage"], whole["usage"]);
  EXPECT_EQ(frames.back(), "[DONE]");
}

TEST(ChatCompletionTest, WritesAGoldenStream) {
  ApiCall call = accepted(parse_chat_completion, chat(R"("stream":true)"));
  EXPECT_TRUE(call.stream);
  const std::string head =
      R"(data: {"id":"chatcmpl-test","object":"chat.completion.chunk","created":1700000000,"model":"cub",)"
      R"("system_fingerprint":"fp_test","service_tier":"default","choices":[{"index":0,"delta":)";
  EXPECT_EQ(answer_with(call, text_events({"Hel", "lo \"you\"\n"})).bytes,
      head +
          R"({"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]})"
          "\n\n" +
          head +
          R"({"content":"Hel"},"logprobs":null,"finish_reason":null}]})"
          "\n\n" +
          head +
          R"({"content":"lo \"you\"\n"},"logprobs":null,"finish_reason":null}]})"
          "\n\n" +
          head +
          R"({},"logprobs":null,"finish_reason":"stop"}]})"
          "\n\ndata: [DONE]\n\n");
}

TEST(ChatCompletionTest, TellsAnErrorInsideAStreamAndNothingAfterIt) {
  ApiCall call = accepted(parse_chat_completion, chat(R"("stream":true)"));
  std::vector<GenerationEvent> events = text_events({"a"}, 0, FinishReason::kError);
  events.back().error = "the grammar allows no further token";
  const std::vector<Json> frames = answer_with(call, events).frames();
  ASSERT_EQ(frames.size(), 4u);
  EXPECT_EQ(frames[2]["error"]["code"], "generation_failed");
  EXPECT_EQ(frames[2]["error"]["type"], "server_error");
  EXPECT_EQ(frames[3], "[DONE]");
  EXPECT_EQ(call.writer->fail({.status = 500, .message = "again"}), "");
}

TEST(ChatCompletionTest, CountsUsageInEveryFrameWhenAsked) {
  ApiCall call = accepted(parse_chat_completion,
      chat(R"("stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true})"));
  const std::vector<Json> frames = answer_with(call, text_events({"a", "b"})).frames();
  EXPECT_EQ(frames[1]["usage"]["completion_tokens"], 1);
  EXPECT_EQ(frames[2]["usage"]["completion_tokens"], 2);
  EXPECT_EQ(frames[4]["usage"]["prompt_tokens_details"]["cached_tokens"], 4);
}

TEST(ChatCompletionTest, TellsTokensAndTimesWhenAsked) {
  const Json json =
      run(parse_chat_completion, chat(R"("max_tokens":3,"return_token_ids":true,"timings":true)")).json();
  EXPECT_EQ(json["choices"][0]["token_ids"].size(), 3u);
  EXPECT_EQ(json["prompt_token_ids"].size(), json["usage"]["prompt_tokens"]);
  EXPECT_EQ(json["timings"]["predicted_n"], 3);
  for (const char* name : {"queue_ms", "prompt_ms", "predicted_ms", "ttft_ms", "total_ms"})
    EXPECT_TRUE(json["timings"][name].is_number()) << name;
}

TEST(ChatCompletionTest, TimingsNameTheRequestAndWithLogprobsTheTimeOfEachToken) {
  const std::string fields = R"("max_tokens":5,"timings":true)";
  const Json plain = run(parse_chat_completion, chat(fields)).json()["timings"];
  EXPECT_GT(plain["request_id"].get<int64_t>(), 0);
  EXPECT_FALSE(plain.contains("token_ms"));
  const Json timings = run(parse_chat_completion, chat(fields + R"(,"logprobs":true)")).json()["timings"];
  ASSERT_EQ(timings["token_ms"].size(), timings["predicted_n"].get<size_t>());
  double before = 0;
  for (const Json& at : timings["token_ms"]) {
    EXPECT_GE(at.get<double>(), before);
    before = at;
  }
  EXPECT_NEAR(timings["token_ms"][0].get<double>(), timings["ttft_ms"].get<double>(), 0.01);
}

TEST(ChatCompletionTest, LogprobsCarryTheBytesOfEachToken) {
  const Json json =
      run(parse_chat_completion, chat(R"("max_tokens":20,"logprobs":true,"top_logprobs":1,"seed":3)")).json();
  std::string joined;
  for (const Json& token : json["choices"][0]["logprobs"]["content"]) {
    EXPECT_LE(token["logprob"], 0);
    EXPECT_EQ(token["top_logprobs"].size(), 1u);
    if (token["bytes"].is_null()) continue;  // a special token, which the text leaves out
    for (const Json& byte : token["bytes"]) joined += static_cast<char>(byte.get<int>());
  }
  EXPECT_EQ(joined, json["choices"][0]["message"]["content"]);
}

TEST(ChatCompletionTest, TheSameSeedGivesTheSameAnswer) {
  const std::string body = chat(R"("max_tokens":20,"seed":11)");
  EXPECT_EQ(run(parse_chat_completion, body).json(), run(parse_chat_completion, body).json());
  EXPECT_NE(run(parse_chat_completion, body).json()["choices"],
      run(parse_chat_completion, chat(R"("max_tokens":20,"seed":12)")).json()["choices"]);
}

TEST(ChatCompletionTest, HandsEveryFieldToTheEngine) {
  const ApiCall call = accepted(parse_chat_completion,
      chat(R"("max_completion_tokens":9,"temperature":0.5,"top_p":0.9,"top_k":40,"min_p":0.1,"typical_p":0.8,
             "frequency_penalty":0.1,"presence_penalty":0.2,"repetition_penalty":1.1,"n":2,"best_of":3,
             "stop":["x","yz"],"seed":-1,"logit_bias":{"5":-100,"6":1.5},"stop_token_ids":[7],
             "allowed_token_ids":[8,9],"min_tokens":2,"ignore_eos":true,"include_stop_str_in_output":true,
             "skip_special_tokens":false,"priority":3,"cache_salt":"s","user":"u","timeout":2.5,
             "logprobs":true,"top_logprobs":4)"));
  ASSERT_EQ(call.requests.size(), 1u);
  const GenerationRequest& request = call.requests[0];
  EXPECT_EQ(request.max_tokens, 9);
  EXPECT_FLOAT_EQ(request.sampling.temperature, 0.5f);
  EXPECT_FLOAT_EQ(request.sampling.top_p, 0.9f);
  EXPECT_EQ(request.sampling.top_k, 40);
  EXPECT_FLOAT_EQ(request.sampling.min_p, 0.1f);
  EXPECT_FLOAT_EQ(request.typical_p, 0.8f);
  EXPECT_FLOAT_EQ(request.sampling.frequency_penalty, 0.1f);
  EXPECT_FLOAT_EQ(request.sampling.presence_penalty, 0.2f);
  EXPECT_FLOAT_EQ(request.sampling.repetition_penalty, 1.1f);
  EXPECT_EQ(request.n, 2);
  EXPECT_EQ(request.best_of, 3);
  EXPECT_EQ(request.stop, (std::vector<std::string>{"x", "yz"}));
  EXPECT_EQ(request.seed, UINT64_MAX);
  EXPECT_EQ(request.logit_bias, (std::vector<std::pair<int32_t, float>>{{5, -100.f}, {6, 1.5f}}));
  EXPECT_EQ(request.stop_ids, std::vector<int32_t>{7});
  EXPECT_EQ(request.allowed_ids, (std::vector<int32_t>{8, 9}));
  EXPECT_EQ(request.min_tokens, 2);
  EXPECT_TRUE(request.ignore_eos);
  EXPECT_TRUE(request.include_stop_in_text);
  EXPECT_FALSE(request.skip_special);
  EXPECT_EQ(request.priority, 3);
  EXPECT_EQ(request.cache_salt, "6:tenants");
  EXPECT_EQ(request.deadline, EngineTime{} + std::chrono::milliseconds(2500));
  EXPECT_EQ(request.top_logprobs, 4);
  EXPECT_TRUE(call.warnings.empty());
}

TEST(ChatCompletionTest, AbsentAndNullFieldsMeanTheDefaults) {
  for (const std::string more : {"", R"("temperature":null,"max_tokens":null,"stop":null,"n":null,"seed":null,
      "tools":null,"response_format":null,"stream":null,"logit_bias":null,"user":null)"}) {
    const ApiCall call = accepted(parse_chat_completion, chat(more));
    const GenerationRequest& request = call.requests[0];
    EXPECT_FLOAT_EQ(request.sampling.temperature, 1.f);
    EXPECT_EQ(request.max_tokens, 512 - std::ssize(request.prompt));
    EXPECT_EQ(request.n, 1);
    EXPECT_EQ(request.seed, 7u);
    EXPECT_EQ(request.cache_salt, "tenant");
    EXPECT_FALSE(call.stream);
  }
}

TEST(ChatCompletionTest, WhatARequestLeavesOpenIsAsTheModelsMakersSay) {
  ApiServices services = small_services();
  services.defaults = {.temperature = 0.25f,
      .top_p = 0.5f,
      .min_p = 0.1f,
      .repetition_penalty = 1.5f,
      .top_k = 3,
      .max_new_tokens = {}};
  const SamplingParams open = accepted(parse_chat_completion, chat(""), services).requests[0].sampling;
  EXPECT_FLOAT_EQ(open.temperature, 0.25f);
  EXPECT_FLOAT_EQ(open.top_p, 0.5f);
  EXPECT_FLOAT_EQ(open.min_p, 0.1f);
  EXPECT_FLOAT_EQ(open.repetition_penalty, 1.5f);
  EXPECT_EQ(open.top_k, 3);
  const std::string fields = R"("temperature":1,"top_p":1,"min_p":0,"repetition_penalty":1,"top_k":0)";
  const SamplingParams said = accepted(parse_chat_completion, chat(fields), services).requests[0].sampling;
  EXPECT_FLOAT_EQ(said.temperature, 1);
  EXPECT_FLOAT_EQ(said.top_p, 1);
  EXPECT_FLOAT_EQ(said.min_p, 0);
  EXPECT_FLOAT_EQ(said.repetition_penalty, 1);
  EXPECT_EQ(said.top_k, 0);
}

TEST(ChatCompletionTest, AnAnswerIsAsLongAsTheModelsMakersSayUnlessTheRequestSaysIt) {
  ApiServices services = small_services();
  services.defaults.max_new_tokens = 33;
  EXPECT_EQ(accepted(parse_chat_completion, chat(""), services).requests[0].max_tokens, 33);
  EXPECT_EQ(accepted(parse_chat_completion, chat(R"("max_tokens":50)"), services).requests[0].max_tokens, 50);
  services.defaults.max_new_tokens = 100'000;
  const ApiCall call = accepted(parse_chat_completion, chat(""), services);
  EXPECT_LT(call.requests[0].max_tokens, 512);
  EXPECT_TRUE(call.warnings.empty()) << "nobody asked for more";
}

TEST(ChatCompletionTest, ADeveloperIsASystemWhereTheTemplateKnowsOnlyThat) {
  const std::string messages =
      R"([{"role":"system","content":"One."},{"role":"developer","content":"Two."},{"role":"user","content":"Hi"}])";
  const ApiCall call = accepted(parse_chat_completion, chat("", messages));
  EXPECT_EQ(small_model()->tokenizer()->decode(call.requests[0].prompt, false),
      "<|system|>One.\n\nTwo.<|user|>Hi<|assistant|>");
}

TEST(ChatCompletionTest, ShortensAnAnswerThatWouldNotFitAndSaysSo) {
  const ApiCall call = accepted(parse_chat_completion, chat(R"("max_tokens":100000)"));
  EXPECT_EQ(call.requests[0].max_tokens, 512 - std::ssize(call.requests[0].prompt));
  ASSERT_EQ(call.warnings.size(), 1u);
  EXPECT_NE(call.warnings[0].find("max_tokens was reduced"), std::string::npos);
}

TEST(ChatCompletionTest, IgnoresUnknownFieldsWithAWarningUnlessStrict) {
  const std::string body = chat(R"("temprature":0.5)");
  const ApiCall call = accepted(parse_chat_completion, body);
  ASSERT_EQ(call.warnings.size(), 1u);
  EXPECT_EQ(call.warnings[0], "unknown parameter temprature (did you mean temperature?)");
  ApiServices strict = small_services();
  strict.strict_fields = true;
  const ApiError error = refused(parse_chat_completion, body, strict);
  EXPECT_EQ(error.code, "unknown_parameter");
  EXPECT_EQ(error.param, "temprature");
  EXPECT_EQ(error.message, "unknown parameter temprature (did you mean temperature?)");
}

TEST(ChatCompletionTest, NamesTheFieldsThatHaveNoEffect) {
  const ApiCall call = accepted(parse_chat_completion, chat(R"("store":true,"service_tier":"flex")"));
  EXPECT_EQ(call.warnings,
      (std::vector<std::string>{"store has no effect here", "service_tier has no effect here"}));
  EXPECT_TRUE(
      accepted(parse_chat_completion, chat(R"("store":false,"service_tier":"auto")")).warnings.empty());
}

TEST(ChatCompletionTest, DraftsFromAPredictedAnswer) {
  const ApiCall call = accepted(
      parse_chat_completion, chat(R"("prediction":{"type":"content","content":"Once upon a time"})"));
  EXPECT_TRUE(call.warnings.empty());
  EXPECT_EQ(small_model()->tokenizer()->decode(call.requests[0].prediction, false), "Once upon a time");
  const ApiCall parts = accepted(parse_chat_completion,
      chat(
          R"("prediction":{"type":"content","content":[{"type":"text","text":"Once"},{"type":"text","text":" upon"}]})"));
  EXPECT_FALSE(parts.requests[0].prediction.empty());
  EXPECT_EQ(
      refused(parse_chat_completion, chat(R"("prediction":{"type":"content"})")).param, "prediction.content");
  EXPECT_EQ(refused(parse_chat_completion, chat(R"("prediction":{"type":"x","content":"y"})")).param,
      "prediction.type");
  EXPECT_EQ(refused(parse_chat_completion, chat(R"("prediction":"x")")).param, "prediction");
}

TEST(ChatCompletionTest, PromptLogprobsStandBesideTheChoices) {
  const ApiCall call = accepted(parse_chat_completion, chat(R"("prompt_logprobs":1,"max_tokens":2,"n":2)"));
  const Json json = run(parse_chat_completion, chat(R"("prompt_logprobs":1,"max_tokens":2,"n":2)")).json();
  EXPECT_EQ(json["prompt_logprobs"].size(), call.requests[0].prompt.size());
  EXPECT_TRUE(json["prompt_logprobs"][0].is_null());
  EXPECT_EQ(
      refused(parse_chat_completion, chat(R"("prompt_logprobs":1,"stream":true)")).param, "prompt_logprobs");
}

TEST(ChatCompletionTest, ContinuesTheAssistantsLastMessage) {
  const std::string messages =
      R"([{"role":"user","content":"Hi"},{"role":"assistant","content":"Once upon a"}])";
  const ApiCall call = accepted(parse_chat_completion, chat(R"("continue_final_message":true)", messages));
  const std::string prompt = small_model()->tokenizer()->decode(call.requests[0].prompt, false);
  EXPECT_TRUE(prompt.ends_with("<|assistant|>Once upon a")) << prompt;
}

}  // namespace
}  // namespace cheetah
