// A request that another engine began: its tokens are taken as read, and it goes on after them.
#include <algorithm>

#include "base/error.h"
#include "engine/core.h"

namespace cheetah {

// Everything that a token leaves behind is a function of the tokens so far: the place in the random stream,
// the penalties, the grammar, the text held back. So the choices start where preempted ones would.
void EngineCore::resume(RequestState& request, EngineTime now) {
  while (!request.forked()) start_sequence(request, static_cast<int>(request.choices.size()));
  for (const auto& choice : request.choices) {
    const ResumedChoice& before = request.request.resume[static_cast<size_t>(choice->choice)];
    if (!before.finished) continue;
    choice->num_generated = choice->num_resumed = std::ssize(before.tokens);
    choice->status = SequenceStatus::kDone;
    ++request.num_finished;
  }
  for (const auto& choice : request.choices) {
    if (choice->status == SequenceStatus::kDone) continue;
    replay(*choice, request.request.resume[static_cast<size_t>(choice->choice)].tokens, now);
    if (choice->status != SequenceStatus::kDone) enqueue(*choice);
  }
}

// Without sending anything but the end, where the tokens lead to it.
void EngineCore::replay(Sequence& sequence, std::span<const int32_t> tokens, EngineTime now) {
  const auto wrong = [&](const char* why) {
    finish(sequence, FinishReason::kError, now, {ErrorKind::kBadRequest, why});
  };
  for (const int32_t id : tokens) {
    if (sequence.status == SequenceStatus::kDone) return;
    if (is_end(sequence, id) || (sequence.grammar && !sequence.grammar->accept(id)))
      return wrong("the resumed tokens are none that this request could have generated");
    sequence.tokens.push_back(id);
    sequence.num_resumed = ++sequence.num_generated;
    if (sequence.decoder) sequence.stop.push(sequence.decoder->push(id));
    end_after_token(sequence, now);
  }
}

// The logprobs of a prompt are collected once, from the first choice that computes it; the others come after.
bool EngineCore::waits_for_first_choice(const Sequence& sequence) const {
  const RequestState& state = *sequence.request;
  if (!state.needs_all_rows() || state.request.resume.empty()) return false;
  const auto first = std::ranges::find_if(
      state.choices, [](const auto& choice) { return choice->status != SequenceStatus::kDone; });
  return first->get() != &sequence;
}

}  // namespace cheetah
