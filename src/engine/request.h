// SPDX-License-Identifier: MIT
#pragma once
// What enters the engine and what comes out of it: plain data, no HTTP, no JSON.
#include <any>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/reasoning_budget.h"
#include "kernels/sample/sample_row.h"

namespace cheetah {

class GrammarProgram;  // engine/grammar/grammar.h

enum class RequestId : uint64_t {};
using EngineTime = std::chrono::steady_clock::time_point;

enum class Pooling { kNone, kMean, kLast };  // not kNone: an embedding is wanted, no token is generated

// What a client already has of one choice: another engine generated it and is gone.
struct ResumedChoice {
  std::vector<int32_t> tokens;
  bool finished = false;    // the client has its end too: nothing more of it is sent
  float mirostat_mu = 0.f;  // where the request uses Mirostat: what the next token begins with
  // How many of the tokens the client has: the events of the others come again, without logprobs. Unset: it has
  // all of them.
  std::optional<int64_t> told = {};

  bool operator==(const ResumedChoice&) const = default;
};

struct GenerationRequest {
  RequestId id{};
  std::vector<int32_t> prompt;
  int64_t max_tokens = 16;
  int64_t min_tokens = 0;
  int n = 1;        // choices returned
  int best_of = 1;  // choices generated; the n with the best mean logprob are returned

  SamplingParams sampling;
  float typical_p = 1.f;
  std::vector<std::string> dry_breakers;  // texts that no repetition crosses, where sampling.dry is on
  std::vector<std::pair<int32_t, float>> logit_bias;
  std::vector<int32_t> allowed_ids;  // empty: all
  uint64_t seed = 0;                 // choice c draws from stream c
  std::optional<int> top_logprobs;   // 0..20 alternatives beside each token's logprob; unset: no logprobs
  bool prompt_logprobs = false;
  std::optional<int>
      top_prompt_logprobs;  // alternatives beside each token of the prompt; unset: as top_logprobs

  // What the answer may read like, from its beginning or in parts: drafts come from it as from the prompt. It changes
  // no token.
  std::vector<int32_t> prediction;

  std::vector<std::string> stop;
  std::vector<int32_t> stop_ids;  // beside the model's end-of-text ids
  bool ignore_eos = false;
  bool include_stop_in_text = false;
  bool skip_special = true;

  std::shared_ptr<const GrammarProgram>
      grammar;  // shared: the cache of compiled grammars and the requests using one
  std::optional<ReasoningBudget> reasoning;
  Pooling pooling = Pooling::kNone;
  bool normalize = true;  // embeddings have length 1

  int priority = 0;                    // lower goes first; ageing lifts the waiting
  std::optional<EngineTime> deadline;  // past it the request ends with kDeadline and what it has
  std::string cache_salt;              // prefixes are shared only under the same salt

  // Not empty: one for each of n choices (best_of must not be more). The request goes on after these tokens
  // as the engine that generated them would have, and what comes out is only what its receiver lacks.
  std::vector<ResumedChoice> resume;
  std::any tag{};  // the submitter's own: the engine does not read it
};

enum class FinishReason { kStop, kLength, kCancelled, kDeadline, kError };

// Whose fault a kError is, so that a server can tell the client what to do about it.
enum class ErrorKind {
  kNone,
  kTooLong,     // the prompt does not fit the context
  kBadRequest,  // nothing the engine could do would satisfy it
  kQueueFull,   // later, perhaps
  kDraining,    // not here any more
  kInternal,    // a step failed
  kQuota,       // its sender has used up its quota
};

struct RequestError {
  ErrorKind kind = ErrorKind::kNone;
  std::string why{};  // one sentence for the client
};

struct RequestTimes {  // the waterfall
  EngineTime arrived, scheduled, first_token, finished;
};

// One message about one choice of a request. The last of a choice has `finish`; the last of a request has
// `done` too.
struct GenerationEvent {
  RequestId request{};
  int choice = 0;
  std::vector<GeneratedToken> tokens;  // new since the last event
  std::string text;                    // new text: whole characters, possible stop strings held back
  float mirostat_mu = 0.f;             // after these tokens
  std::optional<FinishReason> finish;
  std::string stop_string;  // which stop string ended it, if one did
  std::string error;        // with kError: one sentence for the client
  ErrorKind error_kind = ErrorKind::kNone;
  bool done = false;
  EngineTime made{};  // when its newest token was chosen; at a router, when that arrived there

  int64_t prompt_tokens = 0;  // these on the events with `finish`
  int64_t cached_tokens = 0;
  int64_t completion_tokens = 0;
  int64_t accepted_drafts = 0, rejected_drafts = 0;  // tokens verified ahead
  RequestTimes times;
  std::vector<float> embedding;
  std::vector<GeneratedToken> prompt_logprobs;
  std::any tag{};  // of a backend that is more than an engine; an engine leaves it empty
};

// Called on the engine thread between two steps, or, for a request refused at once, on the thread that
// submits it. Must only hand the event on. One that throws is not called again and its request is cancelled.
using EventSink = std::function<void(GenerationEvent&&)>;

}  // namespace cheetah
