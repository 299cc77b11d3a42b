// One turn of the engine: what runs and waits becomes a plan, the plan a batch, the batch tokens.
#include <algorithm>

#include "base/format.h"
#include "engine/core.h"

namespace cheetah {
namespace {

// As many of the waiting are looked up in the prefix cache in one step: more could not be admitted soon.
constexpr size_t kLookAhead = 32;
// Rows of logits of a prompt whose logprobs are wanted: each is as long as the vocabulary.
constexpr int64_t kLogitChunk = 128;
// A prompt's pages travel to another engine while the rest of it is computed, so some of it is left for that:
// a quarter, which takes longer than the pages before it, until so few are left that steps get no faster.
constexpr int64_t kLastExported = 512;
// When nothing can run although something waits, the engine looks again after this long.
constexpr auto kRetry = std::chrono::milliseconds(1);
// When all that is there is paused: only deadlines can come up, and whoever resumes wakes the engine.
constexpr auto kPausedRetry = std::chrono::milliseconds(20);

double seconds_between(EngineTime from, EngineTime to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

EngineCore::Turn EngineCore::step(EngineTime now) {
  try {
    return take_turn(now);
  } catch (const std::exception& error) {  // outside any one request's part: all may be half way
    finish_all(FinishReason::kError, now, error_of(error));
    drop_flights();
    return {};
  }
}

EngineCore::Turn EngineCore::take_turn(EngineTime now) {
  expire(now);
  if (num_flights_ > 0 && (requests_.empty() || !looks_ahead())) land_all();
  if (requests_.empty()) return {};
  plan_turn(now);
  if (num_flights_ > 0 && !plan_runs_ahead()) {
    land_all();
    plan_turn(now);
  }
  apply_plan(now);
  if (!works_.empty()) {
    compute_batch();
  } else if (num_flights_ > 0) {
    land();
  } else {
    const bool all_paused =
        std::ranges::all_of(requests_, [](const auto& request) { return request.second->paused; });
    if (all_paused) return {.computed = false, .wake = now + kPausedRetry};
    if (unpin_oldest()) return {.computed = false, .wake = now};
    const auto pause = plan_.wake_in_s ? std::chrono::duration_cast<EngineTime::duration>(
                                             std::chrono::duration<double>(*plan_.wake_in_s))
                                       : EngineTime::duration(kRetry);
    return {.computed = false, .wake = now + pause};
  }
  return {.computed = true, .wake = std::nullopt};
}

void EngineCore::plan_turn(EngineTime now) {
  build_views(now);
  plan_step({.running = running_views_,
             .waiting = waiting_views_,
             .free_pages = pool_.num_free() + pool_.use().idle,
             .time = learner_.model(),
             .stood_back = stood_back_},
            scheduling_, plan_);
}

// Leaves a step in flight where the runner takes one more.
void EngineCore::compute_batch() {
  try {
    launch();
  } catch (const std::exception&) {
    return compute_one_by_one();
  }
  if (num_flights_ == flights_.size()) land();
}

// The batch failed as a whole: alone, each sequence either computes or is the one to blame.
void EngineCore::compute_one_by_one() {
  const std::vector<Work> failed = works_;
  land_all();
  for (const Work& work : failed) {
    if (work.sequence->status != SequenceStatus::kRunning) continue;
    clear_batch();
    try {
      add_work(*work.sequence, work.count);
      if (works_.empty()) continue;
      launch();
    } catch (const std::exception& error) {
      fail(*work.sequence->request, error);
      continue;
    }
    land();
  }
}

void EngineCore::clear_batch() {
  works_.clear();
  batch_tokens_.clear();
  batch_fed_.clear();
  batch_sequences_.clear();
  further_groups_.clear();
  logit_rows_.clear();
  hidden_rows_.clear();
  host_logits_.clear();
  shape_ = {};
}

void EngineCore::build_views(EngineTime now) {
  was_running_.clear();
  was_waiting_.clear();
  running_views_.clear();
  waiting_views_.clear();
  const bool tight =
      pool_.num_free() + pool_.use().idle < layout_.num_groups() * (2 * std::ssize(running_) + 8);
  for (Sequence* sequence : running_) {
    if (ends_in_flight(*sequence)) continue;
    was_running_.push_back(sequence);
    running_views_.push_back(view_running(*sequence, tight));
  }
  for (Sequence* sequence : waiting_) {
    if (sequence->request->paused) continue;
    was_waiting_.push_back(sequence);
    waiting_views_.push_back(view_waiting(*sequence, was_waiting_.size() <= kLookAhead, now));
  }
}

RunningSequence EngineCore::view_running(const Sequence& sequence, bool tight) const {
  const RequestState& request = *sequence.request;
  int64_t freed = sequence.num_held_pages();
  if (tight) {  // what others hold too would not come back
    freed = 0;
    sequence.for_each_held_page([&](PageIndex page) { freed += pool_.sequences(page) == 1; });
  }
  return {.rank = sequence.rank,
          .priority = request.request.priority,
          .computed = sequence.submitted,
          .pending = sequence.pending(),
          .decoding = sequence.num_generated + sequence.awaited > 0 && sequence.pending() == 1,
          .full_pages = sequence.lists.front().size(),
          .window_pages = sequence.lists.back().size(),
          .freed_pages = freed,
          .copied_pages = num_shared_next(sequence),
          .num_sequences = request.paused     ? 0
                           : request.forked() ? 1
                                              : request.request.best_of,
          .paused = request.paused,
          .max_chunk = longest_chunk(request, sequence.pending()),
          .whole = sequence.long_factors && sequence.pending() > 1};
}

WaitingSequence EngineCore::view_waiting(const Sequence& sequence, bool look_up, EngineTime now) const {
  const RequestState& request = *sequence.request;
  const auto total = std::ssize(sequence.tokens);
  WaitingSequence view{
      .rank = sequence.rank,
      .priority = request.request.priority,
      .tokens = total,
      .new_pages = layout_.num_full_groups() * pool_.pages_for(std::min(total + 1, config_.max_context)),
      .num_sequences = request.forked() ? 1 : request.request.best_of,
      .waited_s = seconds_between(request.times.arrived, now)};
  if (sequence.swapped_pages > 0) {
    const int64_t stored = pool_.pages_for(sequence.computed);
    view.cached = sequence.computed;
    view.new_pages = std::max(view.new_pages, layout_.num_full_groups() * stored);
    for (size_t group = 0; group < layout_.windows.size(); ++group)
      if (layout_.windows[group] > 0) view.new_pages += stored - first_held(group, sequence.computed);
    return view;
  }
  view.blocked = waits_for_first_choice(sequence);
  const bool is_long = turns_long(total);
  view.whole = is_long;
  if (look_up && reuses(sequence)) {
    const PrefixMatch match = cache_.peek(request.salts[is_long], reusable_tokens(sequence));
    view.cached = match.ready_tokens;
    view.blocked = match.in_flight();
    view.new_pages +=
        match.idle_pages - layout_.num_full_groups() * (match.ready_tokens / pool_.page_tokens());
  }
  view.max_chunk = longest_chunk(request, total - view.cached);
  return view;
}

int64_t EngineCore::longest_chunk(const RequestState& request, int64_t pending) const {
  if (request.request.prompt_logprobs && request.needs_all_rows()) return kLogitChunk;
  return is_exported(request) ? std::max(kLastExported, pending - pending / 4) : 0;
}

void EngineCore::apply_plan(EngineTime now) {
  clear_batch();
  stood_back_ = plan_.stood_back > 0;
  for (const StepPlan::Preempted& preempted : plan_.preemptions) {
    Sequence& sequence = *was_running_[static_cast<size_t>(preempted.index)];
    ++stats_.preemptions;
    std::erase(running_, &sequence);
    preempt(sequence, preempted.how);
    note(DecisionKind::kPreempted, sequence, now, {.preempt = preempted.reason, .how = preempted.how});
  }
  for (const StepPlan::Chunk& chunk : plan_.decodes)
    add_work(*was_running_[static_cast<size_t>(chunk.index)], chunk.tokens);
  for (const StepPlan::Chunk& chunk : plan_.prefills)
    add_work(*was_running_[static_cast<size_t>(chunk.index)], chunk.tokens);
  for (const StepPlan::Chunk& chunk : plan_.admissions) {
    Sequence& sequence = *was_waiting_[static_cast<size_t>(chunk.index)];
    if (!admit(sequence, now)) continue;
    std::erase(waiting_, &sequence);
    running_.push_back(&sequence);
    sequence.status = SequenceStatus::kRunning;
    RequestState& request = *sequence.request;
    if (!std::exchange(request.was_scheduled, true)) {
      request.times.scheduled = now;
      stats_.queue_s.observe(seconds_between(request.times.arrived, now));
      stats_.prompt_tokens += static_cast<uint64_t>(request.num_prompt());
    }
    if (chunk.tokens > 0)
      add_work(sequence,
               sequence.long_factors ? sequence.pending() : std::min(chunk.tokens, sequence.pending()));
  }
  if (plan_.held_back == HoldReason::kNone || waiting_.empty()) return;
  if (std::exchange(last_held_, waiting_.front()) == waiting_.front() && last_hold_ == plan_.held_back)
    return;
  last_hold_ = plan_.held_back;
  note(DecisionKind::kHeldBack, *waiting_.front(), now, {.held = plan_.held_back});
}

void EngineCore::add_work(Sequence& sequence, int64_t count) {
  if (!prepare_pages(sequence, count)) return;
  const RequestState& request = *sequence.request;
  const auto row = std::ssize(batch_tokens_);
  const int64_t from = sequence.submitted, end = from + count;
  Work work{.sequence = &sequence,
            .count = count,
            .end = end,
            .completes = end == sequence.length(),
            .prompt_begin = std::ssize(host_logits_),
            .hidden_begin = std::ssize(hidden_rows_)};
  work.forks = work.completes && !request.forked();
  if (request.request.prompt_logprobs && request.needs_all_rows())
    for (int64_t p = from; p < std::min(end, request.num_prompt() - 1); ++p) {
      host_logits_.push_back(std::ssize(logit_rows_));
      logit_rows_.push_back(row + p - from);
    }
  work.logit_row = std::ssize(logit_rows_);
  if (work.completes && !request.embeds()) logit_rows_.push_back(row + count - 1);
  if (request.request.pooling == Pooling::kMean)
    for (int64_t i = 0; i < count; ++i) hidden_rows_.push_back(row + i);
  if (request.request.pooling == Pooling::kLast && work.completes) hidden_rows_.push_back(row + count - 1);
  work.prompt_count = std::ssize(host_logits_) - work.prompt_begin;
  work.hidden_count = std::ssize(hidden_rows_) - work.hidden_begin;
  add_tokens(sequence, end);
  batch_sequences_.push_back({.pages = sequence.lists.front().pages,
                              .context_tokens = end,
                              .query_begin = row,
                              .query_count = count});
  shape_.add(count, from);
  works_.push_back(work);
}

// Up to `end`. The last may be one that the step in flight chooses.
void EngineCore::add_tokens(const Sequence& sequence, int64_t end) {
  const int64_t known = std::min(end, std::ssize(sequence.tokens));
  batch_tokens_.insert(batch_tokens_.end(), sequence.tokens.begin() + sequence.submitted,
                       sequence.tokens.begin() + known);
  if (known == end) return;
  batch_fed_.push_back({.row = std::ssize(batch_tokens_), .sample = sequence.sample});
  batch_tokens_.push_back(0);
}

}  // namespace cheetah
