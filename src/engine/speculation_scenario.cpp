// SPDX-License-Identifier: MIT
#include "engine/speculation_scenario.h"

#include "engine/scenario_load.h"
#include "model/tokenizer/tokenizer.h"

namespace cheetah {
namespace {

constexpr int64_t kNoisePrompt = 64;

GenerationRequest story_request(const Engine& engine, uint64_t seed, int64_t length) {
  static const std::vector<std::string> kBeginnings = {"Once upon a time", "One day, a little girl named",
      "There was a big dog who", "In a small house by the sea,", "Tom and his sister",
      "The sun was shining and"};
  GenerationRequest request;
  if (const Tokenizer* tokenizer = engine.model().tokenizer())
    request.prompt = tokenizer->encode(kBeginnings[seed % kBeginnings.size()], {.add_special = true});
  else
    request.prompt = random_tokens(8, engine.model().traits().vocab, seed);
  request.max_tokens = length;
  request.ignore_eos = true;
  request.sampling = {.temperature = 0.7f, .top_p = 0.95f};
  request.seed = seed;
  return request;
}

// Every tenth token of the answer is predicted wrong.
GenerationRequest copying_request(
    const Engine& engine, uint64_t seed, int64_t length, const std::vector<int32_t>* answer) {
  GenerationRequest request = story_request(engine, seed, length);
  request.sampling = {};
  if (!answer) return request;
  request.prediction = *answer;
  for (size_t i = 9; i < request.prediction.size(); i += 10)
    request.prediction[i] = (request.prediction[i] + 1) % static_cast<int32_t>(engine.model().traits().vocab);
  return request;
}

GenerationRequest noise_request(const Engine& engine, uint64_t seed, int64_t length) {
  GenerationRequest request;
  request.prompt = random_tokens(kNoisePrompt, engine.model().traits().vocab, seed);
  request.max_tokens = length;
  request.ignore_eos = true;
  request.sampling.temperature = 2.f;
  request.seed = seed;
  return request;
}

GenerationRequest request_for(
    const Engine& engine, const SpeculationPlan& plan, uint64_t seed, const std::vector<int32_t>* answer) {
  switch (plan.text) {
    case DraftText::kStories:
      return story_request(engine, seed, plan.new_tokens);
    case DraftText::kCopying:
      return copying_request(engine, seed, plan.new_tokens, answer);
    case DraftText::kNoise:
      break;
  }
  return noise_request(engine, seed, plan.new_tokens);
}

}  // namespace

std::string name_of(DraftText text) {
  switch (text) {
    case DraftText::kStories:
      return "stories";
    case DraftText::kCopying:
      return "copying";
    case DraftText::kNoise:
      break;
  }
  return "noise";
}

SpeculationResult run_speculation(
    Engine& engine, const SpeculationPlan& plan, const std::vector<std::vector<int32_t>>& answers) {
  const EngineStats before = engine.stats();
  ScenarioLoad load(engine);
  for (int64_t i = 0; i < plan.streams; ++i) {
    const uint64_t seed = plan.seed * 1000 + static_cast<uint64_t>(i);
    const auto* const answer = answers.empty() ? nullptr : &answers[static_cast<size_t>(i)];
    load.send(request_for(engine, plan, seed, answer));
  }
  load.run_to_end();
  const EngineStats after = engine.stats();
  SpeculationResult result;
  result.decode_tokens_per_s = decode_rate(load.traces());
  result.steps = after.steps - before.steps;
  result.drafts = {.drafts = after.drafts.drafts - before.drafts.drafts,
      .tokens = after.drafts.tokens - before.drafts.tokens,
      .accepted = after.drafts.accepted - before.drafts.accepted};
  for (const RequestTrace& trace : load.traces()) result.tokens.push_back(trace.tokens);
  return result;
}

}  // namespace cheetah
