// SPDX-License-Identifier: MIT
#include "engine/refusal.h"

#include <algorithm>

#include "base/format.h"

namespace cheetah {

namespace {

std::optional<std::string> wrong_resume(const GenerationRequest& request, int64_t vocab) {
  if (request.resume.empty()) return std::nullopt;
  if (request.pooling != Pooling::kNone || request.best_of > request.n)
    return "a request that sends nothing before its end cannot be resumed";
  if (std::ssize(request.resume) != request.n)
    return format("{} choices are resumed but {} were asked for", request.resume.size(), request.n);
  if (std::ranges::all_of(request.resume, &ResumedChoice::finished))
    return "all choices of the resumed request are finished";
  for (const ResumedChoice& choice : request.resume)
    for (const int32_t id : choice.tokens)
      if (id < 0 || id >= vocab)
        return format("the resumed token id {} is outside the model's vocabulary of {}", id, vocab);
  return std::nullopt;
}

}  // namespace

std::optional<RequestError> refusal_of(
    const GenerationRequest& request, const EngineConfig& config, const ModelTraits& traits) {
  const auto bad = [](std::string why) { return RequestError{ErrorKind::kBadRequest, std::move(why)}; };
  if (request.prompt.empty()) return bad("the prompt has no tokens");
  if (std::ssize(request.prompt) > config.max_context)
    return RequestError{ErrorKind::kTooLong, format("the prompt has {} tokens but the context holds {}",
                                                 request.prompt.size(), config.max_context)};
  for (const int32_t id : request.prompt)
    if (id < 0 || id >= traits.vocab)
      return bad(
          format("the prompt's token id {} is outside the model's vocabulary of {}", id, traits.vocab));
  if (request.n < 1 || request.max_tokens < 0) return bad("n must be at least 1 and max_tokens at least 0");
  if (request.best_of > config.max_sequences || request.n > config.max_sequences)
    return bad(format("{} choices were asked for but at most {} sequences run at once",
        std::max(request.n, request.best_of), config.max_sequences));
  if (auto why = wrong_resume(request, traits.vocab)) return bad(std::move(*why));
  return std::nullopt;
}

RequestError queue_is_full(int64_t num_waiting) {
  return {ErrorKind::kQueueFull, format("the queue is full: {} requests wait", num_waiting)};
}

RequestError is_draining() {
  return {ErrorKind::kDraining, "the engine is shutting down and takes no new requests"};
}

RequestError has_failed() {
  return {ErrorKind::kInternal, "the engine has failed and computes nothing any more"};
}

GenerationEvent refusal_event(const GenerationRequest& request, const RequestError& error, EngineTime now) {
  GenerationEvent event;
  event.request = request.id;
  event.finish = FinishReason::kError;
  event.error = error.why;
  event.error_kind = error.kind;
  event.done = true;
  event.prompt_tokens = std::ssize(request.prompt);
  event.times.arrived = event.times.finished = now;
  return event;
}

}  // namespace cheetah
