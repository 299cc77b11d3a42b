// SPDX-License-Identifier: MIT
#pragma once
// For tests: a small model behind the API, requests as short JSON, answers of a real engine or of events made
// by hand.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/json.h"
#include "engine/core_fixture.h"
#include "engine/grammar/grammar_cache.h"
#include "serve/api/endpoint.h"

namespace cheetah {

inline ApiServices make_services(const Model& model, GrammarCache& grammars) {
  return {.model = model,
      .model_name = "cub",
      .aliases = {"gpt-4o"},
      .max_context = 512,
      .max_sequences = 8,
      .system_fingerprint = "fp_test",
      .grammars = grammars};
}

// Loaded once for all tests.
inline GrammarCache& small_grammars() {
  static GrammarCache grammars(*small_model());
  return grammars;
}
inline ApiServices small_services() { return make_services(*small_model(), small_grammars()); }

inline CallFacts test_facts() {
  CallFacts facts;
  facts.id = "test";
  facts.unix_time = 1700000000;
  facts.seed = 7;
  facts.cache_salt = "tenant";
  return facts;
}

inline ApiCall accepted(
    ApiParser parser, const std::string& body, const ApiServices& services = small_services()) {
  ApiResult result = parser(body, services, test_facts());
  if (const auto* error = std::get_if<ApiError>(&result)) {
    ADD_FAILURE() << "refused: " << error->message << "\nbody: " << body;
    return {};
  }
  return std::move(std::get<ApiCall>(result));
}

inline ApiError refused(
    ApiParser parser, const std::string& body, const ApiServices& services = small_services()) {
  ApiResult result = parser(body, services, test_facts());
  if (const auto* error = std::get_if<ApiError>(&result)) return *error;
  ADD_FAILURE() << "not refused: " << body;
  return {};
}

// An answer as it came: what each event sent, and the end.
struct Answer {
  std::string bytes;
  Json json() const { return Json::parse(bytes); }
  // The data of each frame; "[DONE]" stays text.
  std::vector<Json> frames() const {
    std::vector<Json> result;
    for (size_t at = 0; (at = bytes.find("data: ", at)) != std::string::npos;) {
      const size_t end = bytes.find("\n\n", at);
      const std::string data = bytes.substr(at + 6, end - at - 6);
      result.push_back(data == "[DONE]" ? Json(data) : Json::parse(data));
      at = end;
    }
    return result;
  }
};

// Events of one choice made by hand: the text in the given pieces, one token each.
inline std::vector<GenerationEvent> text_events(
    const std::vector<std::string>& pieces, int choice = 0, FinishReason finish = FinishReason::kStop) {
  std::vector<GenerationEvent> events;
  for (const std::string& piece : pieces) {
    GenerationEvent event;
    event.choice = choice;
    event.text = piece;
    event.tokens.push_back({.id = 20, .logprob = -0.5f, .top = {{20, -0.5f}, {21, -1.5f}}});
    events.push_back(std::move(event));
  }
  GenerationEvent last;
  last.choice = choice;
  last.finish = finish;
  last.done = true;
  last.prompt_tokens = 10;
  last.cached_tokens = 4;
  last.completion_tokens = static_cast<int64_t>(pieces.size());
  events.push_back(std::move(last));
  return events;
}

inline Answer answer_with(ApiCall& call, const std::vector<GenerationEvent>& events) {
  Answer answer;
  for (const GenerationEvent& event : events) answer.bytes += call.writer->on_event(0, event);
  answer.bytes += call.writer->finish();
  return answer;
}

// Runs the call's requests through a real engine.
inline Answer run(ApiCall call) {
  EngineConfig config = small_config(400, *small_model());
  CoreDriver driver(config);
  driver.now = std::chrono::steady_clock::now();
  Answer answer;
  for (size_t i = 0; i < call.requests.size(); ++i) {
    GenerationRequest request = call.requests[i];
    request.id = RequestId{i + 1};
    driver.core.submit(
        std::move(request),
        [&, i](GenerationEvent&& event) { answer.bytes += call.writer->on_event(i, event); }, driver.now);
  }
  driver.run();
  answer.bytes += call.writer->finish();
  return answer;
}

inline Answer run(ApiParser parser, const std::string& body) { return run(accepted(parser, body)); }

}  // namespace cheetah
