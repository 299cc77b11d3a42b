// Pages for others: a job is claimed, computed, and its pages are written to the decode worker slab by slab
// while the next are computed. A job may come twice, late or never; the decode worker's answer to the claim
// decides.
#include <algorithm>
#include <utility>

#include "cluster/core/worker_state.h"
#include "cluster/transfer/kv_compat.h"

namespace cheetah::cluster {
namespace {
// A timer set for now would be due again in the same turn, for ever.
constexpr Duration kLeastWait = std::chrono::milliseconds(50);
}  // namespace

bool WorkerCore::State::prefills() const {
  return self.state == WorkerState::kReady && (self.role == Role::kPrefill || self.role == Role::kBoth);
}

void WorkerCore::State::on(JobDelivered& input) {
  const auto known = jobs.find(input.job.key);
  if (known != jobs.end()) {  // given to us again: the old delivery is void
    known->second->delivery = input.delivery;
    return;
  }
  const bool full = static_cast<int>(jobs.size()) >= config.max_jobs;
  const bool other_model = input.job.kv.model != self.kv.model;
  if (!prefills() || full || other_model) return want(NackJob{input.delivery});
  // Who asked cannot be told, or is this worker itself, which then computes it as its own.
  if (input.job.reply_to == self.id || !linked(input.job.reply_to)) return want(AckJob{input.delivery});
  take_job(std::move(input.job), input.delivery);
}

void WorkerCore::State::on_message(WorkerId from, PrefillJob& message) {
  if (message.reply_to != from || jobs.count(message.key) > 0) return;
  if (!prefills() || static_cast<int>(jobs.size()) >= config.max_jobs)
    return say(from, PrefillFailed{message.key, message.reservation, "the worker is busy"});
  if (message.kv.model != self.kv.model)
    return say(from, PrefillFailed{message.key, message.reservation, "the worker holds another model"});
  take_job(std::move(message), {});
}

// Its own whole pages that are whole ones there too.
int64_t WorkerCore::State::reach(const PrefillJob& job) const {
  const int64_t mine = std::max(1, self.kv.page_tokens), theirs = std::max(1, job.kv.page_tokens);
  const int64_t whole = std::max(job.first_token, job.end_token / mine * mine);
  return job.first_token + (whole - job.first_token) / theirs * theirs;
}

// Whoever asked computes it itself, at once.
void WorkerCore::State::refuse_job(const PrefillJob& job, std::optional<DeliveryId> delivery,
                                   const std::string& why) {
  log(job.key, "job refused", why);
  say(job.reply_to, PrefillFailed{job.key, job.reservation, why});
  if (delivery) want(AckJob{*delivery});
}

void WorkerCore::State::take_job(PrefillJob job, std::optional<DeliveryId> delivery) {
  const RequestKey key = job.key;
  if (const KvComparison match = match_sender(self.kv, job.kv); match.verdict == KvCompatibility::kRefuse)
    return refuse_job(job, delivery, match.why);
  auto owned = std::make_unique<Prefilling>();
  Prefilling& work = *owned;
  work.received = now;
  work.deadline = now + job.time_left;
  work.next_extend = now + std::max(config.extend_every, kLeastWait);
  work.claim_until = now + config.claim_answer_wait;
  work.delivery = delivery;
  work.end_token = reach(job);
  work.job = std::move(job);
  jobs.emplace(key, std::move(owned));
  say(work.job.reply_to, Claimed{key, work.job.reservation, work.end_token});
  schedule_job(work);
}

void WorkerCore::State::on_message(WorkerId from, const ClaimAnswer& message) {
  const auto found = jobs.find(message.key);
  if (found == jobs.end() || found->second->job.reply_to != from) {
    // The answer came too late: whoever waits for the pages should not.
    if (message.accepted)
      say(from, PrefillFailed{message.key, message.reservation, "the worker has dropped the job"});
    return;
  }
  Prefilling& work = *found->second;
  if (work.stage != Prefilling::Stage::kClaiming) return;
  if (!message.accepted || message.reservation != work.job.reservation) return end_job(message.key);
  const PrefillJob& job = work.job;
  const int64_t page = self.kv.page_tokens;
  if (page <= 0 || job.slab_tokens <= 0 || job.end_token <= job.first_token)
    return stop_job(message.key, PrefillFailed{message.key, job.reservation, "the job makes no sense"});
  work.stage = Prefilling::Stage::kRunning;
  work.started = now;
  work.next_news = now + std::max(config.news_every, kLeastWait);
  if (work.end_token <= job.first_token) {  // less than a page of ours: nothing to send
    work.computed = now;
    return finish_job_if_done(message.key);
  }
  work.exporting = true;
  schedule_job(work);
  std::vector<int32_t> tokens(job.tokens.begin(), job.tokens.begin() + work.end_token);
  want(StartExport{.key = message.key,
                   .tokens = std::move(tokens),
                   .salt = job.salt,
                   .end_token = work.end_token,
                   .priority = job.priority,
                   .deadline = work.deadline});
}

void WorkerCore::State::on(const ExportProgress& input) {
  const auto found = jobs.find(input.key);
  if (found == jobs.end() || found->second->stage != Prefilling::Stage::kRunning) return;
  Prefilling& work = *found->second;
  if (input.failed) return stop_job(input.key, PrefillFailed{input.key, work.job.reservation, input.why});
  const PrefillJob& job = work.job;
  work.tokens_ready = std::max(work.tokens_ready, input.tokens_ready);
  if (input.finished) work.computed = now;
  const int64_t page = self.kv.page_tokens;
  while (true) {
    const auto index = static_cast<uint32_t>(work.slabs.size());
    const int64_t begins = job.first_token + index * job.slab_tokens;
    const int64_t ends = std::min(work.end_token, begins + job.slab_tokens);
    const int64_t pages_end = (ends + page - 1) / page * page;
    if (begins >= work.end_token || input.tokens_ready < pages_end) break;
    work.slabs.push_back({.posted = now});
    work.num_hidden += work.computed ? 0 : 1;
    want(PostSlab{.key = input.key,
                  .to = job.reply_to,
                  .reservation = job.reservation,
                  .memory = job.memory,
                  .kv = job.kv,
                  .index = index,
                  .first_token = begins,
                  .num_tokens = ends - begins});
  }
  finish_job_if_done(input.key);
}

void WorkerCore::State::on(const SlabSent& input) {
  const auto found = jobs.find(input.key);
  if (found == jobs.end()) return;
  Prefilling& work = *found->second;
  ++work.num_answered;
  Prefilling::Slab& slab = work.slabs.at(input.index);
  slab.sent = now;
  if (work.stage != Prefilling::Stage::kRunning) return;  // WritesFenced says when all have been answered
  const PrefillJob& job = work.job;
  if (!input.sent)
    return stop_job(input.key,
                    PrefillFailed{input.key, job.reservation, "a slab could not be written: " + input.why});
  const int64_t begins = job.first_token + input.index * job.slab_tokens;
  say(job.reply_to, SlabPosted{.key = input.key,
                               .reservation = job.reservation,
                               .index = input.index,
                               .first_token = begins,
                               .num_tokens = std::min(work.end_token - begins, job.slab_tokens),
                               .checksum = input.checksum,
                               .spent = micros(now - slab.posted)});
  finish_job_if_done(input.key);
}

void WorkerCore::State::finish_job_if_done(RequestKey key) {
  const Prefilling& work = *jobs.at(key);
  const PrefillJob& job = work.job;
  const auto num_slabs = static_cast<uint32_t>(work.slabs.size());
  const int64_t covered = job.first_token + num_slabs * job.slab_tokens;
  if (!work.computed || work.num_answered < num_slabs) return;
  say(job.reply_to, PrefillDone{.key = key,
                                .reservation = job.reservation,
                                .end_token = std::min(covered, work.end_token),
                                .num_slabs = num_slabs,
                                .queued = micros(work.started - work.received),
                                .prefill = micros(*work.computed - work.started),
                                .since_computed = micros(now - *work.computed),
                                .slabs_hidden = work.num_hidden});
  end_job(key);
}

// Writes for the last time, then says so.
void WorkerCore::State::stop_job(RequestKey key, std::optional<Message> last_word) {
  Prefilling& work = *jobs.at(key);
  work.last_word = std::move(last_word);  // of two reasons to stop, the later
  if (work.stage == Prefilling::Stage::kStopping) return;
  if (work.num_answered == work.slabs.size() || planted.say_stopped_too_early) return end_job(key);
  work.stage = Prefilling::Stage::kStopping;
  want(FenceWrites{key});
}

void WorkerCore::State::on(const WritesFenced& input) {
  if (jobs.count(input.key) > 0) end_job(input.key);
}

void WorkerCore::State::end_job(RequestKey key) {
  const auto found = jobs.find(key);
  Prefilling& work = *found->second;
  record_job(work);
  if (work.last_word) say(work.job.reply_to, std::move(*work.last_word));
  if (work.exporting) want(ReleaseExport{key});
  if (work.delivery) want(AckJob{*work.delivery});
  job_timers.clear(key);
  jobs.erase(found);
}

void WorkerCore::State::schedule_job(const Prefilling& work) {
  Time next = std::min(work.deadline, work.next_extend);
  if (work.stage == Prefilling::Stage::kClaiming) next = std::min(next, work.claim_until);
  if (work.stage == Prefilling::Stage::kRunning) next = std::min(next, work.next_news);
  if (work.stage == Prefilling::Stage::kStopping) next = work.next_extend;
  job_timers.set(work.job.key, next);
}

void WorkerCore::State::look_at_job(RequestKey key) {
  Prefilling& work = *jobs.at(key);
  const bool claiming = work.stage == Prefilling::Stage::kClaiming;
  if (claiming && now >= work.claim_until) return end_job(key);  // nobody answers: not wanted
  if (work.stage != Prefilling::Stage::kStopping && now >= work.deadline)
    return stop_job(key, PrefillFailed{key, work.job.reservation, "it took too long"});
  if (now >= work.next_extend) {
    work.next_extend = now + std::max(config.extend_every, kLeastWait);
    if (work.delivery) want(ExtendJob{*work.delivery});
  }
  if (work.stage == Prefilling::Stage::kRunning && now >= work.next_news) {
    work.next_news = now + std::max(config.news_every, kLeastWait);
    say(work.job.reply_to, PrefillNews{key, work.job.reservation, work.tokens_ready});
  }
  schedule_job(work);
}

}  // namespace cheetah::cluster
