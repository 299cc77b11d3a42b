// SPDX-License-Identifier: MIT
#include "cluster/core/prefill_jobs.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "cluster/core/worker_trace.h"
#include "cluster/transfer/kv_compat.h"

namespace cheetah::cluster {
namespace {

using Stage = PrefillWork::Stage;

// A timer set for now would be due again in the same step, forever.
constexpr Duration kLeastWait = std::chrono::milliseconds(50);

}  // namespace

int PrefillJobs::wanted() const {
  return roles_.prefills() ? std::max(0, config_.max_jobs - static_cast<int>(size())) : 0;
}

void PrefillJobs::on(JobDelivered& input, WorkerStep& step) {
  const auto known = jobs_.find(input.job.key);
  if (known != jobs_.end()) {  // given to us again: the old delivery is void
    known->second->delivery = input.delivery;
    return;
  }
  const bool other_model = input.job.kv.model != self_.kv.model;
  if (!roles_.prefills() || full() || other_model) return step.want(NackJob{input.delivery});
  // Its decode worker cannot be reached, or is this worker itself, which then computes it as its own.
  if (input.job.reply_to == self_.id || !peers_.linked(input.job.reply_to))
    return step.want(AckJob{input.delivery});
  take(std::move(input.job), input.delivery, step);
}

void PrefillJobs::hear(WorkerId from, PrefillJob& message, WorkerStep& step) {
  if (message.reply_to != from || jobs_.count(message.key) > 0) return;
  if (!roles_.prefills() || full())
    return step.say(from, PrefillFailed{message.key, message.reservation, "the worker is busy"});
  if (message.kv.model != self_.kv.model)
    return step.say(from, PrefillFailed{message.key, message.reservation, "the worker holds another model"});
  take(std::move(message), {}, step);
}

// Any role: what is asked for lies in the cache, and a worker that drains can still send it.
void PrefillJobs::hear(WorkerId from, FetchJob& message, WorkerStep& step) {
  PrefillJob& job = message.job;
  if (job.reply_to != from || jobs_.count(job.key) > 0) return;
  if (full() || job.kv.model != self_.kv.model)
    return step.say(from, PrefillFailed{job.key, job.reservation,
                              full() ? "the worker is busy" : "the worker holds another model"});
  take(std::move(job), {}, step, true);
}

// Its own whole pages that are whole ones there too.
int64_t PrefillJobs::reach(const PrefillJob& job) const {
  const int64_t mine = std::max(1, self_.kv.page_tokens), theirs = std::max(1, job.kv.page_tokens);
  const int64_t whole = std::max(job.first_token, job.end_token / mine * mine);
  return job.first_token + (whole - job.first_token) / theirs * theirs;
}

// The decode worker computes it itself, at once.
void PrefillJobs::refuse(const PrefillJob& job, std::optional<DeliveryId> delivery, const std::string& why,
    WorkerStep& step) const {
  step.log(job.key, "job refused", why);
  step.say(job.reply_to, PrefillFailed{job.key, job.reservation, why});
  if (delivery) step.want(AckJob{*delivery});
}

void PrefillJobs::take(
    PrefillJob job, std::optional<DeliveryId> delivery, WorkerStep& step, bool only_cached) {
  const RequestKey key = job.key;
  if (const KvComparison match = match_sender(self_.kv, job.kv); match.verdict == KvCompatibility::kRefuse)
    return refuse(job, delivery, match.why, step);
  auto owned = std::make_unique<PrefillWork>();
  PrefillWork& work = *owned;
  work.received = step.now;
  work.deadline = step.now + job.time_left;
  work.next_extend = step.now + std::max(config_.extend_every, kLeastWait);
  work.claim_until = step.now + config_.claim_answer_wait;
  work.delivery = delivery;
  work.only_cached = only_cached;
  work.end_token = reach(job);
  work.job = std::move(job);
  jobs_.emplace(key, std::move(owned));
  step.say(work.job.reply_to, Claimed{key, work.job.reservation, work.end_token});
  schedule(work);
}

void PrefillJobs::hear(WorkerId from, const ClaimAnswer& message, WorkerStep& step) {
  const auto found = jobs_.find(message.key);
  if (found == jobs_.end() || found->second->job.reply_to != from) {
    // The answer came too late: the decode worker should not wait for the pages.
    if (message.accepted)
      step.say(from, PrefillFailed{message.key, message.reservation, "the worker has dropped the job"});
    return;
  }
  PrefillWork& work = *found->second;
  if (work.stage != Stage::kClaiming) return;
  const PrefillJob& job = work.job;
  if (!message.accepted || message.reservation != job.reservation) return end(message.key, step);
  if (self_.kv.page_tokens <= 0 || job.slab_tokens <= 0 || job.end_token <= job.first_token)
    return stop(message.key, PrefillFailed{message.key, job.reservation, "the job makes no sense"}, step);
  start(work, step);
}

void PrefillJobs::start(PrefillWork& work, WorkerStep& step) {
  const PrefillJob& job = work.job;
  work.stage = Stage::kRunning;
  work.started = step.now;
  work.next_news = step.now + std::max(config_.news_every, kLeastWait);
  if (work.end_token <= job.first_token) {  // less than a page of ours: nothing to send
    work.computed = step.now;
    return finish_if_done(job.key, step);
  }
  work.exporting = true;
  schedule(work);
  std::vector<int32_t> tokens(job.tokens.begin(), job.tokens.begin() + work.end_token);
  step.want(StartExport{.key = job.key,
      .tokens = std::move(tokens),
      .salt = job.salt,
      .end_token = work.end_token,
      .priority = job.priority,
      .deadline = work.deadline,
      .only_cached = work.only_cached});
}

void PrefillJobs::on(const ExportProgress& input, WorkerStep& step) {
  const auto found = jobs_.find(input.key);
  if (found == jobs_.end() || found->second->stage != Stage::kRunning) return;
  PrefillWork& work = *found->second;
  if (input.failed) return stop(input.key, PrefillFailed{input.key, work.job.reservation, input.why}, step);
  work.tokens_ready = std::max(work.tokens_ready, input.tokens_ready);
  if (input.finished) work.computed = step.now;
  post_slabs(work, input.tokens_ready, step);
  finish_if_done(input.key, step);
}

void PrefillJobs::post_slabs(PrefillWork& work, int64_t tokens_ready, WorkerStep& step) const {
  const PrefillJob& job = work.job;
  const int64_t page = self_.kv.page_tokens;
  while (true) {
    const auto index = static_cast<uint32_t>(work.slabs.size());
    const int64_t begins = job.first_token + index * job.slab_tokens;
    const int64_t ends = std::min(work.end_token, begins + job.slab_tokens);
    const int64_t pages_end = (ends + page - 1) / page * page;
    if (begins >= work.end_token || tokens_ready < pages_end) return;
    work.slabs.push_back({.posted = step.now});
    work.num_hidden += work.computed ? 0 : 1;
    step.want(PostSlab{.key = job.key,
        .to = job.reply_to,
        .reservation = job.reservation,
        .memory = job.memory,
        .kv = job.kv,
        .index = index,
        .first_token = begins,
        .num_tokens = ends - begins});
  }
}

void PrefillJobs::on(const SlabSent& input, WorkerStep& step) {
  const auto found = jobs_.find(input.key);
  if (found == jobs_.end()) return;
  PrefillWork& work = *found->second;
  ++work.num_answered;
  PrefillWork::Slab& slab = work.slabs.at(input.index);
  slab.sent = step.now;
  if (work.stage != Stage::kRunning) return;  // WritesFenced says when all have been answered
  const PrefillJob& job = work.job;
  if (!input.sent) {
    const std::string why = "a slab could not be written: " + input.why;
    return stop(input.key, PrefillFailed{input.key, job.reservation, why}, step);
  }
  const int64_t begins = job.first_token + input.index * job.slab_tokens;
  step.say(job.reply_to, SlabPosted{.key = input.key,
                             .reservation = job.reservation,
                             .index = input.index,
                             .first_token = begins,
                             .num_tokens = std::min(work.end_token - begins, job.slab_tokens),
                             .checksum = input.checksum,
                             .spent = micros(step.now - slab.posted)});
  finish_if_done(input.key, step);
}

void PrefillJobs::finish_if_done(RequestKey key, WorkerStep& step) {
  const PrefillWork& work = *jobs_.at(key);
  const PrefillJob& job = work.job;
  const auto num_slabs = static_cast<uint32_t>(work.slabs.size());
  const int64_t covered = job.first_token + num_slabs * job.slab_tokens;
  if (!work.computed || work.num_answered < num_slabs) return;
  step.say(job.reply_to, PrefillDone{.key = key,
                             .reservation = job.reservation,
                             .end_token = std::min(covered, work.end_token),
                             .num_slabs = num_slabs,
                             .queued = micros(work.started - work.received),
                             .prefill = micros(*work.computed - work.started),
                             .since_computed = micros(step.now - *work.computed),
                             .slabs_hidden = work.num_hidden});
  end(key, step);
}

bool PrefillJobs::cancel(WorkerId from, RequestKey key, WorkerStep& step) {
  const auto job = jobs_.find(key);
  if (job == jobs_.end() || job->second->job.reply_to != from) return false;
  stop(key, WritesStopped{key}, step);
  return true;
}

// Writes for the last time, then says so.
void PrefillJobs::stop(RequestKey key, std::optional<Message> last_word, WorkerStep& step) {
  PrefillWork& work = *jobs_.at(key);
  work.last_word = std::move(last_word);  // of two reasons to stop, the later
  if (work.stage == Stage::kStopping) return;
  if (work.num_answered == work.slabs.size()) return end(key, step);
  work.stage = Stage::kStopping;
  step.want(FenceWrites{key});
}

void PrefillJobs::on(const WritesFenced& input, WorkerStep& step) {
  if (jobs_.count(input.key) > 0) end(input.key, step);
}

void PrefillJobs::end(RequestKey key, WorkerStep& step) {
  const auto found = jobs_.find(key);
  PrefillWork& work = *found->second;
  record_job(work, step);
  if (work.last_word) step.say(work.job.reply_to, std::move(*work.last_word));
  if (work.exporting) step.want(ReleaseExport{key});
  if (work.delivery) step.want(AckJob{*work.delivery});
  timers_.clear(key);
  jobs_.erase(found);
}

// For a decode worker that is gone nothing need be computed.
void PrefillJobs::peer_lost(WorkerId peer, WorkerStep& step) {
  std::vector<RequestKey> unwanted;
  for (const auto& [key, work] : jobs_)
    if (work->job.reply_to == peer) unwanted.push_back(key);
  for (const RequestKey key : unwanted) stop(key, {}, step);
}

void PrefillJobs::hand_over(WorkerStep& step) {
  std::vector<RequestKey> keys;
  for (const auto& [key, work] : jobs_) keys.push_back(key);
  for (const RequestKey key : keys)
    stop(key, PrefillFailed{key, jobs_.at(key)->job.reservation, "the worker drains"}, step);
}

void PrefillJobs::schedule(const PrefillWork& work) {
  Time next = std::min(work.deadline, work.next_extend);
  if (work.stage == Stage::kClaiming) next = std::min(next, work.claim_until);
  if (work.stage == Stage::kRunning) next = std::min(next, work.next_news);
  if (work.stage == Stage::kStopping) next = work.next_extend;
  timers_.set(work.job.key, next);
}

void PrefillJobs::run_timers(WorkerStep& step) {
  while (const auto key = timers_.take_due(step.now)) look_at(*key, step);
}

void PrefillJobs::look_at(RequestKey key, WorkerStep& step) {
  PrefillWork& work = *jobs_.at(key);
  // No answer to the claim: the pages are not wanted.
  if (work.stage == Stage::kClaiming && step.now >= work.claim_until) return end(key, step);
  if (work.stage != Stage::kStopping && step.now >= work.deadline)
    return stop(key, PrefillFailed{key, work.job.reservation, "it took too long"}, step);
  if (step.now >= work.next_extend) {
    work.next_extend = step.now + std::max(config_.extend_every, kLeastWait);
    if (work.delivery) step.want(ExtendJob{*work.delivery});
  }
  if (work.stage == Stage::kRunning && step.now >= work.next_news) {
    work.next_news = step.now + std::max(config_.news_every, kLeastWait);
    step.say(work.job.reply_to, PrefillNews{key, work.job.reservation, work.tokens_ready});
  }
  schedule(work);
}

int64_t PrefillJobs::num_exports() const {
  return std::ranges::count_if(jobs_, [](const auto& one) { return one.second->exporting; });
}

std::string PrefillJobs::describe() const {
  std::string text;
  for (const auto& [key, work] : jobs_)
    text += format("job {:016x}.{} stage={} posted={} answered={}\n", static_cast<uint64_t>(key.uid),
        static_cast<uint32_t>(key.attempt), static_cast<int>(work->stage), work->slabs.size(),
        work->num_answered);
  return text;
}

void PrefillJobs::check_invariants() const {
  for (const auto& [key, work] : jobs_)
    CHEETAH_ASSERT(work->num_answered <= work->slabs.size(), "a slab is answered once");
}

}  // namespace cheetah::cluster
