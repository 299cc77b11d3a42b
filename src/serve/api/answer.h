// SPDX-License-Identifier: MIT
#pragma once
// The parts of an answer that several endpoints write alike.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/request.h"
#include "serve/api/endpoint.h"
#include "serve/api/request_fields.h"

namespace cheetah {

class ModelTables;

// What an answer says of itself and what the client wants in it.
struct AnswerStyle {
  std::string id, model, fingerprint;
  int64_t created = 0;
  StreamOptions stream;
  bool logprobs = false;
  int top_logprobs = 0;
  std::optional<int> prompt_logprobs;  // vLLM's: alternatives beside each token of the prompt
  bool token_ids = false;              // return_token_ids
  bool timings = false;
  const ModelTables* tables = nullptr;  // outlives every answer
};
AnswerStyle make_style(const ApiServices& services, const CallFacts& facts, const char* id_prefix);

// Tokens of all requests of a call.
class UsageCount {
 public:
  // `tells_drafts`: the client predicted the answer and wants to know how well. Elsewhere drafts are the server's own
  // affair: how many there are depends on the moment, and equal calls have equal answers.
  UsageCount(int64_t prompt_tokens, size_t num_requests, bool tells_drafts = false)
      : prompt_(prompt_tokens), cached_(num_requests), tells_drafts_(tells_drafts) {}
  // Generated tokens are counted as they come; the cached ones are known at the end.
  void add(size_t index, const GenerationEvent& event, bool reasoning);

  int64_t prompt_tokens() const { return prompt_; }
  int64_t completion_tokens() const { return completion_; }
  int64_t cached_tokens() const;
  int64_t reasoning_tokens() const { return reasoning_; }
  std::string json() const;  // the "usage" object of chat and completions

 private:
  int64_t prompt_ = 0, completion_ = 0, reasoning_ = 0, accepted_ = 0, rejected_ = 0;
  std::vector<int64_t> cached_;  // by request
  bool tells_drafts_ = false;
};

// When each token of a request's first choice was made, for those who look at tokens.
class TokenTimes {
 public:
  void add(const GenerationEvent& event);
  const std::vector<EngineTime>& made() const { return made_; }

 private:
  std::vector<EngineTime> made_;
};

// The waterfall of a request, with the names llama.cpp's clients know. `tokens`: then token_ms too.
std::string timings_json(const GenerationEvent& last, const TokenTimes* tokens = nullptr);
// One entry of logprobs.content: the token, its bytes, its alternatives.
void append_logprob(std::string& out, const GeneratedToken& token, int top, const ModelTables& tables);
// vLLM's prompt_logprobs of a whole answer: a null for the first token, and for each other an object by token id.
std::string prompt_logprobs_json(const std::vector<GeneratedToken>& tokens, const ModelTables& tables);
// Reads the field of that name.
void read_prompt_logprobs(Fields& fields, AnswerStyle& style, GenerationRequest& request);
// [1, 2, 3]
void append_ids(std::string& out, const std::vector<int32_t>& ids);
// What the client reads for the end of a choice; "" for kError and kCancelled, which are errors.
std::string_view finish_name(FinishReason reason, bool called_tools);
bool is_failure(const GenerationEvent& event);

}  // namespace cheetah
