// SPDX-License-Identifier: MIT
#pragma once
// What the engine knows of a request and of each of its choices. Plain state of the engine thread.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/grammar/grammar.h"
#include "engine/kv/page_list.h"
#include "engine/request.h"
#include "engine/scheduler/scheduler.h"
#include "engine/speculate/draft.h"
#include "engine/stop_matcher.h"
#include "kernels/sample/mirostat.h"
#include "model/tokenizer/tokenizer.h"

namespace cheetah {

struct RequestState;

enum class SequenceStatus { kWaiting, kRunning, kDone };

// What the choice of a sequence's next token depends on beside its tokens and grammar.
struct TokenRules {
  float mirostat_mu = 0.f;
  std::optional<ReasoningClock> reasoning;
  std::vector<uint64_t> masks =
      {};  // of the grammar, for each of the tokens that the step being made chooses
};

// One choice: its tokens and how many of them have keys and values in pages. While it waits after a swap,
// those are in `swapped` instead. Steps in flight run ahead of that: they compute more of the tokens, and
// choose tokens that are not known here yet.
struct Sequence {
  RequestState* request = nullptr;
  int choice = 0;
  Rank rank;
  SequenceStatus status = SequenceStatus::kWaiting;
  std::vector<int32_t> tokens;  // prompt and generated
  int64_t num_generated = 0;
  int64_t num_resumed = 0;  // of those, generated elsewhere before
  int64_t computed = 0;
  int64_t submitted = 0;        // computed once the steps in flight are done
  int64_t awaited = 0;          // tokens that the steps in flight choose
  int64_t sample = 0;           // which of the newest step's tokens is this sequence's
  std::vector<PageList> lists;  // of pages, one a group of layers
  int64_t in_flight = 0;        // tokens that the prefix cache has been promised
  // Where its pages begin to be copies of what the prefix cache has: it lacked the windows to go on from.
  std::optional<int64_t> copies_from;
  bool long_factors = false;  // its keys are turned by longrope's long factors
  std::vector<std::byte> swapped;
  int64_t swapped_pages = 0;

  std::optional<GrammarState> grammar;
  TokenRules rules;
  Draft draft;
  std::optional<StreamDecoder> decoder;  // none: the model has no tokenizer
  StopMatcher stop;
  double logprob_sum = 0;
  EngineTime last_token{};
  GenerationEvent event;  // what was not sent yet

  Sequence(RequestState& owner, int index);
  int64_t length() const { return std::ssize(tokens) + awaited; }
  int64_t pending() const { return length() - submitted; }
  bool in_step() const { return submitted > computed; }
  void set_computed(int64_t count) { computed = submitted = count; }
  int64_t num_held_pages() const {
    int64_t held = 0;
    for (const PageList& list : lists) held += list.num_held();
    return held;
  }
  template <class Visit>
  void for_each_held_page(const Visit& visit) const {
    for (const PageList& list : lists) list.for_each_held(visit);
  }
};

struct RequestState {
  GenerationRequest request;
  EventSink sink;
  uint64_t number = 0;  // in order of arrival
  RequestTimes times;
  bool was_scheduled = false;
  bool paused = false;                             // its client is behind
  std::vector<std::unique_ptr<Sequence>> choices;  // one until the prompt is computed, then best_of
  int num_finished = 0;
  int64_t cached_tokens = 0;
  std::vector<int32_t> end_ids;                     // that end a choice
  std::string salts[2];                             // of the prefix cache, for short and long factors
  std::shared_ptr<const DryBreakers> dry_breakers;  // shared: requests with the same ones; nullptr: none
  std::vector<double> pooled;                       // sum of hidden states
  std::vector<float> embedding;
  std::vector<GeneratedToken> prompt_logprobs;

  int64_t num_prompt() const { return std::ssize(request.prompt); }
  bool embeds() const { return request.pooling != Pooling::kNone; }
  bool forked() const { return std::ssize(choices) == request.best_of; }
  bool holds_events() const { return request.best_of > request.n; }  // until all choices can be compared
  // Every position's output is wanted, so no computed page helps.
  bool needs_all_rows() const {
    return request.pooling == Pooling::kMean ||
           (request.prompt_logprobs && std::ssize(prompt_logprobs) < num_prompt());
  }
};

inline Sequence::Sequence(RequestState& owner, int index)
    : request(&owner),
      choice(index),
      tokens(owner.request.prompt),
      rules{.mirostat_mu = first_mirostat_mu(owner.request.sampling), .reasoning = {}},
      stop(owner.request.stop, owner.request.include_stop_in_text) {}

}  // namespace cheetah
