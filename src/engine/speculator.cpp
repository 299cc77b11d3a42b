// SPDX-License-Identifier: MIT
#include "engine/speculator.h"

#include <algorithm>

#include "model/rope_scaling.h"

namespace cheetah {
namespace {

// Before anything is known a draft is as likely right as wrong; a rate of its own outweighs it after a few tries.
constexpr double kFirstGuess = 0.5, kGuessWeight = 2, kGroupWeight = 4;
// What was learned of a source that is not tried fades, so that it is tried again some time.
constexpr double kForget = 0.995;

// The predicted answer where the sequence is at: how many of the last tokens agree with it.
int64_t agreement(const Sequence& sequence, const std::vector<int32_t>& prediction) {
  const int64_t next = sequence.num_generated;
  if (next >= std::ssize(prediction)) return 0;
  int64_t length = 0;
  while (length < std::min(next, DraftLookup::kLongestMatch) &&
         prediction[static_cast<size_t>(next - 1 - length)] == *(sequence.tokens.end() - 1 - length))
    ++length;
  return length;
}

}  // namespace

size_t Speculator::group_of(int64_t match) {
  constexpr std::array<int64_t, Draft::kMatchGroups - 1> kFrom = {3, 4, 6, 10, 20};
  return static_cast<size_t>(std::ranges::upper_bound(kFrom, match) - kFrom.begin());
}

// What the request may still get, less the token that every step brings; keys are not turned anew in between.
int64_t Speculator::longest_draft(const Sequence& sequence) const {
  const GenerationRequest& request = sequence.request->request;
  if (request.sampling.uses_mirostat()) return 0;  // each token changes how the next is chosen
  if (sequence.rules.reasoning && !sequence.rules.reasoning->done())
    return 0;  // the next may be a forced one
  const auto length = std::ssize(sequence.tokens);
  const int64_t longest = std::min({with_.config.max_draft, request.max_tokens - sequence.num_generated - 1,
      with_.config.max_context - length});
  if (longest <= 0 || rope_changes(with_.traits, length, length + longest + 1)) return 0;
  return longest;
}

// The grammar has the last word on a draft, and needs no verifying to say it.
void Speculator::keep_allowed(Sequence& sequence) const {
  if (!sequence.grammar) return;
  GrammarState state = *sequence.grammar;
  const auto refused = std::ranges::find_if(
      sequence.draft.tokens, [&](int32_t id) { return !state.accept(id) || state.has_ended(); });
  sequence.draft.tokens.erase(refused, sequence.draft.tokens.end());
}

// In the answer that the client predicts, at the same place or elsewhere, and in the sequence itself.
void Speculator::look_up(Sequence& sequence, int64_t longest) {
  Draft& draft = sequence.draft;
  const std::vector<int32_t>& prediction = sequence.request->request.prediction;
  if (prediction.empty()) {
    draft.match = draft.lookup.propose(sequence.tokens, longest, draft.tokens);
    return;
  }
  if (draft.source.empty()) draft.source = prediction;
  const auto known = std::ssize(draft.source) - std::ssize(prediction);
  draft.source.insert(draft.source.end(), sequence.tokens.begin() + known, sequence.tokens.end());
  draft.match = agreement(sequence, prediction);
  if (draft.match == 0) {
    draft.match = draft.lookup.propose(draft.source, longest, draft.tokens);
    return;
  }
  const auto next = prediction.begin() + sequence.num_generated;
  draft.tokens.assign(next, next + std::min<int64_t>(std::max<int64_t>(longest, 0), prediction.end() - next));
}

DraftCandidate Speculator::propose(Sequence& sequence) {
  Draft& draft = sequence.draft;
  look_up(sequence, longest_draft(sequence));
  keep_allowed(sequence);
  if (draft.tokens.empty()) return {};
  const size_t match = group_of(draft.match);
  Acceptance& own = draft.acceptance[match];
  const double rate = own.rate(by_match_[match].rate(kFirstGuess, kGuessWeight), kGroupWeight);
  own.fade(kForget);
  by_match_[match].fade(kForget);
  return {.rate = rate, .longest = std::ssize(draft.tokens)};
}

void Speculator::draft(std::span<Sequence* const> decoding, bool busy, EngineTime now) {
  for (Sequence* sequence : decoding) sequence->draft.tokens.clear();
  if (!enabled() || busy || times_.predict(std::ssize(decoding)) <= 0) return;
  candidates_.clear();
  for (Sequence* sequence : decoding) candidates_.push_back(propose(*sequence));
  choose_depths(candidates_, std::ssize(decoding), times_, plan_);
  for (size_t i = 0; i < decoding.size(); ++i) {
    decoding[i]->draft.tokens.resize(static_cast<size_t>(plan_.depths[i]));
    note_change(*decoding[i], now);
  }
}

void Speculator::note_change(Sequence& sequence, EngineTime now) {
  Draft& draft = sequence.draft;
  const bool drafts = !draft.tokens.empty();
  if (std::exchange(draft.is_on, drafts) == drafts) return;
  with_.record.note(drafts ? DecisionKind::kDrafts : DecisionKind::kDraftsNoMore, sequence, now,
      {.drafted = std::ssize(draft.tokens), .gain = plan_.gain});
}

void Speculator::observe(Sequence& sequence, int64_t drafted, int64_t accepted) {
  const size_t group = group_of(sequence.draft.match);
  sequence.draft.acceptance[group].observe(drafted, accepted);
  by_match_[group].observe(drafted, accepted);
  sequence.draft.num_accepted += accepted;
  sequence.draft.num_rejected += drafted - accepted;
  with_.record.stats().drafts.add(drafted, accepted);
}

}  // namespace cheetah
