// SPDX-License-Identifier: MIT
#include "serve/api/llama_native.h"

#include "serve/api/api_fixture.h"

namespace cheetah {
namespace {

TEST(LlamaNative, CompletesWithTheFieldsItsClientsRead) {
  const Json json = run(parse_llama_completion,
      R"({"prompt":"Once upon a time","n_predict":5,"temperature":0,"ignore_eos":true,"return_tokens":true,"n_probs":2})")
                        .json();
  EXPECT_EQ(json["tokens_predicted"], 5);
  EXPECT_EQ(json["tokens"].size(), 5u);
  EXPECT_EQ(json["stop"], true);
  EXPECT_EQ(json["stop_type"], "limit");
  EXPECT_EQ(json["prompt"], "Once upon a time");
  EXPECT_EQ(json["generation_settings"]["temperature"], 0.0);
  EXPECT_EQ(json["completion_probabilities"].size(), 5u);
  EXPECT_EQ(json["completion_probabilities"][0]["top_logprobs"].size(), 2u);
  EXPECT_TRUE(json["timings"].contains("predicted_per_second"));
}

TEST(LlamaNative, StreamsPiecesAndThenTheEnd) {
  ApiCall call = accepted(parse_llama_completion, R"({"prompt":"a","stream":true})");
  const std::vector<Json> frames = answer_with(call, text_events({"Hel", "lo"})).frames();
  ASSERT_EQ(frames.size(), 3u);
  EXPECT_EQ(frames[0]["content"], "Hel");
  EXPECT_EQ(frames[0]["stop"], false);
  EXPECT_EQ(frames[2]["stop"], true);
  EXPECT_EQ(frames[2]["stop_type"], "eos");
}

TEST(LlamaNative, TakesPromptsInEveryForm) {
  EXPECT_EQ(accepted(parse_llama_completion, R"({"prompt":[12,"ab",13]})").requests.size(), 1u);
  EXPECT_EQ(accepted(parse_llama_completion, R"({"prompt":[12,13]})").requests[0].prompt,
      (std::vector<int32_t>{12, 13}));
  EXPECT_EQ(accepted(parse_llama_completion, R"({"prompt":["a","b"]})").requests.size(), 2u);
  EXPECT_EQ(refused(parse_llama_completion, R"({"prompt":[12,"ab",-1]})").param, "prompt[2]");
}

TEST(LlamaNative, ReadsTheNamesOfItsSampling) {
  const ApiCall call = accepted(parse_llama_completion,
      R"({"prompt":"a","repeat_penalty":1.5,"n_predict":-1,"seed":-1,"logit_bias":[[15,false],["b",2]]})");
  EXPECT_FLOAT_EQ(call.requests[0].sampling.repetition_penalty, 1.5f);
  EXPECT_EQ(call.requests[0].seed, 7u);
  EXPECT_EQ(call.requests[0].max_tokens, 512 - std::ssize(call.requests[0].prompt));
  EXPECT_EQ(call.requests[0].logit_bias.at(0), (std::pair<int32_t, float>{15, -100.f}));
}

TEST(LlamaNative, AppliesTheTemplate) {
  const ApiCall call = accepted(parse_apply_template, R"({"messages":[{"role":"user","content":"Hi"}]})");
  EXPECT_EQ(Json::parse(call.body)["prompt"], "<|user|>Hi<|assistant|>");
}

TEST(LlamaNative, SaysThatAModelCannotFillGaps) {
  const ApiError error = refused(parse_llama_infill, R"({"input_prefix":"a","input_suffix":"b"})");
  EXPECT_NE(error.message.find("fill-in-the-middle"), std::string::npos);
}

TEST(LlamaNative, DescribesItself) {
  const ApiServices services = small_services();
  const Json props = Json::parse(llama_props(services));
  EXPECT_EQ(props["total_slots"], 8);
  EXPECT_EQ(props["default_generation_settings"]["n_ctx"], 512);
  EXPECT_NE(props["chat_template"].get<std::string>().find("<|user|>"), std::string::npos);
  const Json slots = Json::parse(llama_slots(services, 3));
  EXPECT_EQ(slots.size(), 8u);
  EXPECT_EQ(slots[2]["is_processing"], true);
  EXPECT_EQ(slots[3]["is_processing"], false);
}

}  // namespace
}  // namespace cheetah
