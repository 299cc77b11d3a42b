// SPDX-License-Identifier: MIT
#include "engine/step_planner.h"

#include <algorithm>

#include "base/time.h"
#include "model/rope_scaling.h"

namespace cheetah {
namespace {

// How many waiting sequences are looked up in the prefix cache per step: more could not be admitted soon.
constexpr size_t kLookAhead = 32;
// Rows of logits per step of a prompt whose logprobs are wanted: each is as long as the vocabulary.
constexpr int64_t kLogitChunk = 128;
// A prompt's pages travel to another engine while the rest of it is computed: leave a quarter of the prompt
// uncomputed so that the transfer can overlap it, down to so many tokens.
constexpr int64_t kLastExported = 512;

SchedulerConfig scheduling_of(const EngineConfig& config, const KvLayout& layout) {
  return {.policy = config.policy,
      .preemption = config.preemption,
      .max_sequences = config.max_sequences,
      .max_batch_tokens = config.max_batch_tokens,
      .page_tokens = config.page_tokens,
      .full_groups = layout.num_full_groups(),
      .window_groups = layout.num_window_groups(),
      .step_target_s = config.step_target_ms / 1000};
}

}  // namespace

StepPlanner::StepPlanner(const Setting& setting)
    : with_(setting), scheduling_(scheduling_of(setting.config, setting.pages.layout())) {}

void StepPlanner::plan(EngineTime now) {
  if (with_.speculator.enabled()) draft(now);
  build_views(now);
  plan_step({.running = running_views_,
                .waiting = waiting_views_,
                .free_pages = with_.pages.num_available(),
                .time = learner_.model(),
                .stood_back = stood_back_},
      scheduling_, plan_);
}

std::optional<StepPlanner::Hold> StepPlanner::new_hold() {
  const auto& waiting = with_.requests.waiting();
  if (plan_.held_back == HoldReason::kNone || waiting.empty()) return std::nullopt;
  const Sequence& first = *waiting.front();
  const bool was_told = last_held_ == first.rank.number && last_hold_ == plan_.held_back;
  last_held_ = first.rank.number;
  last_hold_ = plan_.held_back;
  if (was_told) return std::nullopt;
  return Hold{first, plan_.held_back};
}

// No grammar has to see the tokens in flight, no logits go through the host, and no keys are turned anew.
bool StepPlanner::can_run_ahead(const Sequence& sequence) const {
  const RequestState& state = *sequence.request;
  const GenerationRequest& request = state.request;
  const auto length = std::ssize(sequence.tokens);
  if (sequence.rules.reasoning && !sequence.rules.reasoning->done())
    return false;  // the next token may be a forced one
  return !request.grammar && request.typical_p >= 1.f && !needs_host(request.sampling) &&
         !request.prompt_logprobs && !state.embeds() && !rope_changes(with_.traits, length, length + 1);
}

// Drafts follow known tokens.
bool StepPlanner::looks_ahead() const {
  return !with_.speculator.enabled() && std::ranges::all_of(with_.requests.running(),
                                            [this](const Sequence* s) { return can_run_ahead(*s); });
}

// Preempting a sequence needs its tokens.
bool StepPlanner::plan_runs_ahead() const {
  return plan_.preemptions.empty() && std::ranges::all_of(plan_.admissions, [this](const auto& chunk) {
    return can_run_ahead(waiting(chunk.index));
  });
}

void StepPlanner::draft(EngineTime now) {
  decoding_.clear();
  bool busy = std::ranges::any_of(
      with_.requests.waiting(), [](const Sequence* sequence) { return !sequence->request->paused; });
  for (Sequence* sequence : with_.requests.running()) {
    sequence->draft.tokens.clear();
    if (sequence->request->paused) continue;
    const bool decodes = sequence->num_generated > 0 && sequence->pending() == 1 && sequence->awaited == 0;
    busy |= !decodes;
    if (decodes) decoding_.push_back(sequence);
  }
  with_.speculator.draft(decoding_, busy, now);
}

// Whatever comes back, there is no further step for it.
bool StepPlanner::ends_in_flight(const Sequence& sequence) const {
  if (sequence.request->embeds()) return sequence.pending() == 0;
  return sequence.awaited > 0 &&
         (sequence.num_generated + sequence.awaited >= sequence.request->request.max_tokens ||
             std::ssize(sequence.tokens) >= with_.config.max_context);
}

// The logprobs of a prompt are collected once, from the first choice that computes it; the others come after.
bool StepPlanner::waits_for_first_choice(const Sequence& sequence) const {
  const RequestState& state = *sequence.request;
  if (!state.needs_all_rows() || state.request.resume.empty()) return false;
  const auto first = std::ranges::find_if(
      state.choices, [](const auto& choice) { return choice->status != SequenceStatus::kDone; });
  return first->get() != &sequence;
}

// 0: any.
int64_t StepPlanner::longest_chunk(const RequestState& request, int64_t pending) const {
  if (request.request.prompt_logprobs && request.needs_all_rows()) return kLogitChunk;
  return with_.exports.has(request) ? std::max(kLastExported, pending - pending / 4) : 0;
}

void StepPlanner::build_views(EngineTime now) {
  was_running_.clear();
  was_waiting_.clear();
  running_views_.clear();
  waiting_views_.clear();
  const auto num_running = std::ssize(with_.requests.running());
  const bool tight = with_.pages.num_available() < with_.pages.layout().num_groups() * (2 * num_running + 8);
  for (Sequence* sequence : with_.requests.running()) {
    if (ends_in_flight(*sequence)) continue;
    was_running_.push_back(sequence);
    running_views_.push_back(view_running(*sequence, tight));
  }
  for (Sequence* sequence : with_.requests.waiting()) {
    if (sequence->request->paused) continue;
    was_waiting_.push_back(sequence);
    waiting_views_.push_back(view_waiting(*sequence, was_waiting_.size() <= kLookAhead, now));
  }
}

RunningSequence StepPlanner::view_running(const Sequence& sequence, bool tight) const {
  const RequestState& request = *sequence.request;
  int64_t freed = sequence.num_held_pages();
  if (tight) {  // what others hold too would not come back
    freed = 0;
    sequence.for_each_held_page([&](PageIndex page) { freed += with_.pages.pool().sequences(page) == 1; });
  }
  return {.rank = sequence.rank,
      .priority = request.request.priority,
      .computed = sequence.submitted,
      .pending = sequence.pending(),
      .decoding = sequence.num_generated + sequence.awaited > 0 && sequence.pending() == 1,
      .drafted = std::ssize(sequence.draft.tokens),
      .full_pages = sequence.lists.front().size(),
      .window_pages = sequence.lists.back().size(),
      .freed_pages = freed,
      .copied_pages = with_.pages.num_shared_next(sequence),
      .num_sequences = request.paused     ? 0
                       : request.forked() ? 1
                                          : request.request.best_of,
      .paused = request.paused,
      .max_chunk = longest_chunk(request, sequence.pending()),
      .whole = sequence.long_factors && sequence.pending() > 1};
}

WaitingSequence StepPlanner::view_waiting(const Sequence& sequence, bool look_up, EngineTime now) const {
  const RequestState& request = *sequence.request;
  const SequencePages& pages = with_.pages;
  const KvLayout& layout = pages.layout();
  const auto total = std::ssize(sequence.tokens);
  const int64_t last = std::min(total + 1, with_.config.max_context);
  WaitingSequence view{.rank = sequence.rank,
      .priority = request.request.priority,
      .tokens = total,
      .new_pages = layout.num_full_groups() * pages.pool().pages_for(last),
      .num_sequences = request.forked() ? 1 : request.request.best_of,
      .waited_s = seconds(request.times.arrived, now)};
  if (sequence.swapped_pages > 0) {
    const int64_t stored = pages.pool().pages_for(sequence.computed);
    view.cached = sequence.computed;
    view.new_pages = std::max(view.new_pages, layout.num_full_groups() * stored);
    for (size_t group = 0; group < layout.windows.size(); ++group)
      if (layout.windows[group] > 0) view.new_pages += stored - pages.first_held(group, sequence.computed);
    return view;
  }
  view.blocked = waits_for_first_choice(sequence);
  view.whole = pages.turns_long(total);
  if (look_up && pages.reuses(sequence)) {
    const PrefixMatch match = pages.peek(sequence);
    view.cached = match.ready_tokens;
    view.blocked = match.in_flight();
    view.new_pages +=
        match.idle_pages - layout.num_full_groups() * (match.ready_tokens / pages.pool().page_tokens());
  }
  view.max_chunk = longest_chunk(request, total - view.cached);
  return view;
}

}  // namespace cheetah
