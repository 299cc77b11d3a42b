// SPDX-License-Identifier: MIT
#include "engine/decision_log.h"

#include <algorithm>

#include "base/format.h"
#include "base/names.h"

namespace cheetah {
namespace {

constexpr auto kKinds = enum_names<DecisionKind>({{DecisionKind::kArrived, "arrived"},
    {DecisionKind::kRefused, "refused"}, {DecisionKind::kAdmitted, "admitted"},
    {DecisionKind::kPrefilled, "prefilled"}, {DecisionKind::kHeldBack, "held_back"},
    {DecisionKind::kPreempted, "preempted"}, {DecisionKind::kForked, "forked"},
    {DecisionKind::kTurned, "turned"}, {DecisionKind::kPaused, "paused"}, {DecisionKind::kResumed, "resumed"},
    {DecisionKind::kDrafts, "drafts"}, {DecisionKind::kDraftsNoMore, "drafts_no_more"},
    {DecisionKind::kFinished, "finished"}});

const char* reason_of(HoldReason reason) {
  switch (reason) {
    case HoldReason::kSequencesFull:
      return "as many sequences run as may";
    case HoldReason::kTokensSpent:
      return "the step's tokens or time are spent";
    case HoldReason::kPagesShort:
      return "too few pages are free";
    case HoldReason::kInFlight:
      return "another sequence is computing its beginning";
    case HoldReason::kBatchRuns:
      return "a batch runs to its end first";
    case HoldReason::kBatchForms:
      return "the batch waits for more";
    case HoldReason::kNone:
      break;
  }
  return "nothing holds it";
}

const char* reason_of(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "cancelled";
    case FinishReason::kDeadline:
      return "deadline";
    case FinishReason::kError:
      break;
  }
  return "error";
}

std::string line_of(const Decision& d) {
  return format("{:.3f} s step {} request {} choice {} {}; {} pages free\n", d.time_s, d.step,
      static_cast<uint64_t>(d.request), d.kind == DecisionKind::kForked ? 0 : d.choice, what_of(d),
      d.free_pages);
}

}  // namespace

std::string_view name_of(DecisionKind kind) { return kKinds[kind]; }

std::string what_of(const Decision& d) {
  switch (d.kind) {
    case DecisionKind::kArrived:
      return format("arrived with {} tokens", d.tokens);
    case DecisionKind::kRefused:
      return "was refused";
    case DecisionKind::kAdmitted:
      return format("was admitted: {} tokens, {} of them cached", d.tokens, d.cached);
    case DecisionKind::kPrefilled:
      return format("had {} tokens of its prompt computed in a step of {} tokens and {} sequences, {:.1f} ms",
          d.chunk, d.step_tokens, d.step_sequences, d.step_s * 1e3);
    case DecisionKind::kHeldBack:
      return format("waits: {}", reason_of(d.held));
    case DecisionKind::kPreempted:
      return format("was preempted at {} tokens ({}): {}", d.tokens,
          d.how == Preemption::kSwap ? "swapped out" : "to be computed again",
          d.preempt == PreemptReason::kPagesShort ? "one before it needed pages" : "a higher priority came");
    case DecisionKind::kForked:
      return format("became {} choices sharing {} tokens", d.choice, d.tokens);
    case DecisionKind::kTurned:
      return format(
          "passed the length where its rotary factors change, at {} tokens: computed again", d.tokens);
    case DecisionKind::kPaused:
      return format("is paused at {} tokens: its client reads too slowly", d.tokens);
    case DecisionKind::kResumed:
      return "goes on: its client has caught up";
    case DecisionKind::kDrafts:
      return format("drafts {} tokens per step at {} tokens: {:.2f} times the rate is expected", d.drafted,
          d.tokens, d.gain);
    case DecisionKind::kDraftsNoMore:
      return format("drafts no more at {} tokens: none would pay", d.tokens);
    case DecisionKind::kFinished:
      break;
  }
  return format("finished ({}) with {} tokens", reason_of(d.finish), d.tokens);
}

std::string text_of(const std::vector<Decision>& decisions) {
  std::string text;
  for (const Decision& decision : decisions) text += line_of(decision);
  return text;
}

void DecisionLog::follow(const DecisionLog& other) {
  const uint64_t oldest = other.count_ - std::min<uint64_t>(other.count_, ring_.size());
  for (count_ = std::max(count_, oldest); count_ < other.count_; ++count_) at(count_) = other.at(count_);
}

std::vector<Decision> DecisionLog::last(int64_t num_decisions) const {
  const uint64_t have = std::min<uint64_t>(count_, ring_.size());
  const uint64_t show = std::min<uint64_t>(have, static_cast<uint64_t>(std::max<int64_t>(0, num_decisions)));
  std::vector<Decision> decisions;
  for (uint64_t i = count_ - show; i < count_; ++i) decisions.push_back(at(i));
  return decisions;
}

std::vector<Decision> DecisionLog::of(RequestId request) const {
  std::vector<Decision> decisions = last(static_cast<int64_t>(ring_.size()));
  std::erase_if(decisions, [&](const Decision& decision) { return decision.request != request; });
  return decisions;
}

}  // namespace cheetah
