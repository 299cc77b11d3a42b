// SPDX-License-Identifier: MIT
#include "cluster/policy/simulation/sim_worker.h"

#include <algorithm>
#include <limits>
#include <tuple>

namespace cheetah::cluster::throughput {
namespace {

constexpr double kAlpha = 0.2;

bool more_urgent(const Work& a, const Work& b) {
  return std::tuple(-a.priority, a.order) < std::tuple(-b.priority, b.order);
}

}  // namespace

SimWorker::SimWorker(
    WorkerId worker, Role first_role, int64_t max_sequences, int64_t chunk_tokens, const StepModel& steps)
    : id(worker),
      role(first_role),
      max_sequences_(max_sequences),
      chunk_tokens_(chunk_tokens),
      steps_(steps) {}

void SimWorker::insert(std::vector<Work>& list, const Work& work) {
  list.insert(std::upper_bound(list.begin(), list.end(), work, more_urgent), work);
}

// As the engine's scheduler does: who is more urgent takes the place of the newest of the least urgent, which
// computes what it had again later.
bool SimWorker::make_room(const Work& for_work) {
  if (static_cast<int64_t>(running_.size()) < max_sequences_) return true;
  const auto victim = std::ranges::max_element(running_, more_urgent);
  if (victim == running_.end() || victim->priority >= for_work.priority) return false;
  Work again = *victim;
  running_.erase(victim);
  again.prompt = again.prompt_left = again.context;
  insert(prompts_, again);
  ++preempted_;
  return true;
}

void SimWorker::admit_ready() {
  while (!ready_.empty() && make_room(ready_.front())) {
    running_.push_back(ready_.front());
    running_.back().fresh = true;
    ready_.erase(ready_.begin());
  }
}

// As the engine's scheduler does: the step that gives a request its first token is not slowed down by those
// less urgent, unless they stood back the step before.
int32_t SimWorker::choose_decoding() {
  int32_t floor = std::numeric_limits<int32_t>::min();
  for (const Work& work : running_)
    if (work.fresh && !left_out_) floor = std::max(floor, work.priority);
  decoding_ = 0;
  for (Work& work : running_) {
    work.stepping = work.priority >= floor;
    decoding_ += work.stepping ? 1 : 0;
  }
  left_out_ = decoding_ < running_.size();
  return floor;
}

std::optional<double> SimWorker::begin_step() {
  admit_ready();
  const int32_t floor = choose_decoding();
  const bool room = static_cast<int64_t>(running_.size()) < max_sequences_;
  const bool may_prefill =
      !prompts_.empty() && (room || prompts_.front().remote) && prompts_.front().priority >= floor;
  chunk_ = may_prefill ? std::min(chunk_tokens_, prompts_.front().prompt_left) : 0;
  if (chunk_ > 0) chunk_of_ = prompts_.front().request;
  if (chunk_ == 0 && decoding_ == 0) return std::nullopt;
  int64_t context = 0;
  for (const Work& work : running_) context += work.stepping ? work.context : 0;
  const double prefill_ms = steps_.prefill_token_ms * static_cast<double>(chunk_);
  // A step reads all weights: a short chunk alone takes as long as that.
  step_ms_ = decoding_ > 0 ? steps_.decode_ms(static_cast<int64_t>(decoding_), context) + prefill_ms
                           : std::max(prefill_ms, steps_.weights_ms);
  stepping_ = true;
  return step_ms_;
}

StepDone SimWorker::end_step() {
  StepDone done;
  stepping_ = false;
  if (decoding_ > 0) decode_step_ms_.add(step_ms_, kAlpha);
  if (chunk_ > 0) prefill_token_ms_.add(step_ms_ / static_cast<double>(chunk_), kAlpha);
  for (Work& work : running_) {
    if (!work.stepping) continue;
    work.fresh = work.stepping = false;
    ++work.context;
    --work.output_left;
    done.tokens.push_back(work.request);
    if (work.output_left == 0) done.finished.push_back(work.request);
  }
  std::erase_if(running_, [](const Work& work) { return work.output_left == 0; });
  if (chunk_ == 0) return done;
  // A more urgent prompt may have come meanwhile; the chunk belongs to the prompt that had it when the step began.
  const auto owner = std::ranges::find(prompts_, chunk_of_, &Work::request);
  owner->prompt_left -= chunk_;
  if (owner->prompt_left > 0) return done;
  Work work = *owner;
  prompts_.erase(owner);
  work.context = work.prompt;
  if (work.remote) {
    done.prefilled.push_back(work);
    return done;
  }
  --work.output_left;
  done.first_token.push_back(work);
  if (work.output_left > 0)
    running_.push_back(work);
  else
    done.finished.push_back(work.request);
  return done;
}

WorkerLoad SimWorker::load() const {
  WorkerLoad load;
  load.running = static_cast<int64_t>(running_.size());
  load.waiting = static_cast<int64_t>(ready_.size() + prompts_.size());
  for (const Work& work : prompts_) {
    load.prefill_tokens += work.prompt_left;
    load.decode_tokens += work.remote ? 0 : work.output_left;
  }
  for (const auto* list : {&ready_, &running_})
    for (const Work& work : *list) load.decode_tokens += work.output_left;
  load.prefill_us_per_token = 1e3 * prefill_token_ms_.value_or(0);
  load.decode_step_us = 1e3 * decode_step_ms_.value_or(0);
  return load;
}

}  // namespace cheetah::cluster::throughput
