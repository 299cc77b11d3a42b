// SPDX-License-Identifier: MIT
// The first byte picks the endpoint, the rest is the body. A call that is accepted must also be answered.
// Runs in the source tree, where the small model is.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "engine/grammar/grammar_cache.h"
#include "model/model.h"
#include "serve/api/endpoint.h"

namespace cheetah {
namespace {

constexpr ApiParser kParsers[] = {parse_chat_completion, parse_completion, parse_embeddings, parse_response,
    parse_message, parse_count_tokens, parse_tokenize, parse_detokenize};

const ApiServices& services() {
  static const std::unique_ptr<Model> model = [] {
    LoadOptions options;
    options.show_progress = false;
    return Model::load("models/cub-1m", options);
  }();
  static GrammarCache grammars(*model, 8, {.max_states = 20'000, .max_steps = 500'000});
  static const ApiServices result = {.model = *model,
      .model_name = "cub",
      .aliases = {},
      .max_context = 256,
      .max_sequences = 8,
      .system_fingerprint = "fuzz",
      .grammars = grammars};
  return result;
}

// Every request says something and ends.
void answer(ApiCall& call) {
  for (size_t i = 0; i < call.requests.size(); ++i)
    for (int choice = 0; choice < call.requests[i].n; ++choice) {
      GenerationEvent event;
      event.choice = choice;
      event.text = "{\"name\": \"a\", \"arguments\": {}}<think>";
      event.tokens.push_back({.id = 5, .logprob = -1.f, .top = {}});
      call.writer->on_event(i, event);
      event = {};
      event.choice = choice;
      event.finish = FinishReason::kStop;
      event.done = choice + 1 == call.requests[i].n;
      call.writer->on_event(i, event);
    }
  call.writer->finish();
}

}  // namespace
}  // namespace cheetah

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace cheetah;
  if (size == 0) return 0;
  const std::string_view body(reinterpret_cast<const char*>(data + 1), size - 1);
  CallFacts facts;
  facts.id = "fuzz";
  ApiResult result = kParsers[data[0] % std::size(kParsers)](body, services(), facts);
  if (auto* call = std::get_if<ApiCall>(&result); call && call->writer) answer(*call);
  return 0;
}
