// SPDX-License-Identifier: MIT
#include "cluster/queue/job_table.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"

namespace cheetah::cluster {
namespace {

constexpr size_t kMostIdBytes = 256;

}  // namespace

std::string_view name_of(PushResult result) {
  switch (result) {
    case PushResult::kQueued:
      return "queued";
    case PushResult::kDuplicate:
      return "duplicate";
    case PushResult::kFull:
      return "full";
    case PushResult::kTooLarge:
      return "too large";
    case PushResult::kUnavailable:
      return "unavailable";
  }
  return "?";
}

void check_job(const Job& job) {
  if (job.priority < 0 || job.priority >= kNumPriorities)
    throw Error(format("job queue: priority {}: expected 0 to {}", job.priority, kNumPriorities - 1));
  if (job.id.empty() || job.id.size() > kMostIdBytes)
    throw Error(format("job queue: an id of {} bytes: expected 1 to {}", job.id.size(), kMostIdBytes));
  const auto is_plain = [](unsigned char c) { return c > ' ' && c < 0x7f; };
  if (!std::ranges::all_of(job.id, is_plain))
    throw Error(format("job queue: id \"{}\": expected visible ASCII without spaces", printable(job.id)));
}

JobTable::JobTable(JobQueueConfig config) : config_(config) {}

PushResult JobTable::push(Job job, Time now) {
  check_job(job);
  advance(now);
  if (seen_.contains(job.id)) return PushResult::kDuplicate;
  const auto bytes = static_cast<int64_t>(job.bytes.size());
  if (bytes > config_.max_bytes) return PushResult::kTooLarge;
  if (num_jobs() >= config_.max_jobs || bytes_ + bytes > config_.max_bytes) return PushResult::kFull;
  seen_.emplace(job.id, now);
  seen_order_.emplace_back(now, job.id);
  bytes_ += bytes;
  const Sequence sequence = next_sequence_++;
  const auto [held, inserted] = jobs_.emplace(sequence, Held{.job = std::move(job), .pushed = now});
  make_ready(held->first);
  return PushResult::kQueued;
}

std::optional<Delivery> JobTable::pull(Time now) {
  advance(now);
  const auto level = std::ranges::find_if(ready_, [](const auto& ready) { return !ready.empty(); });
  if (level == ready_.end()) return std::nullopt;
  const Sequence sequence = *level->begin();
  level->erase(level->begin());
  Held& held = jobs_.at(sequence);
  ++held.deliveries;
  held.tag = DeliveryTag(next_tag_++);
  held.visible_at = now + config_.visibility;
  timers_.emplace(held.visible_at, sequence);
  out_.emplace(static_cast<uint64_t>(held.tag), sequence);
  return Delivery{.tag = held.tag,
      .id = held.job.id,
      .bytes = held.job.bytes,
      .priority = held.job.priority,
      .attempt = held.deliveries};
}

void JobTable::ack(DeliveryTag tag) {
  if (const auto out = out_.find(static_cast<uint64_t>(tag)); out != out_.end()) drop(out->second);
}

void JobTable::nack(DeliveryTag tag, Time now) {
  advance(now);
  if (const auto out = out_.find(static_cast<uint64_t>(tag)); out != out_.end()) take_back(out);
}

void JobTable::extend(DeliveryTag tag, Time now) {
  advance(now);
  const auto out = out_.find(static_cast<uint64_t>(tag));
  if (out == out_.end()) return;
  Held& held = jobs_.at(out->second);
  timers_.erase({held.visible_at, out->second});
  held.visible_at = now + config_.visibility;
  timers_.emplace(held.visible_at, out->second);
}

std::optional<Time> JobTable::next_redelivery() const {
  if (timers_.empty()) return std::nullopt;
  return timers_.begin()->first;
}

void JobTable::advance(Time now) {
  while (!timers_.empty() && timers_.begin()->first <= now)
    take_back(out_.find(static_cast<uint64_t>(jobs_.at(timers_.begin()->second).tag)));
  while (!seen_order_.empty() && seen_order_.front().first + config_.dedup_window <= now) {
    seen_.erase(seen_order_.front().second);
    seen_order_.pop_front();
  }
  while (!jobs_.empty() && jobs_.begin()->second.pushed + config_.max_age <= now) drop(jobs_.begin()->first);
}

// Its order is that of its push, so what comes back goes before what came later.
void JobTable::make_ready(Sequence sequence) {
  const Held& held = jobs_.at(sequence);
  if (held.deliveries < config_.max_deliveries)
    ready_[static_cast<size_t>(held.job.priority)].insert(sequence);
}

void JobTable::take_back(std::unordered_map<uint64_t, Sequence>::iterator out) {
  const Sequence sequence = out->second;
  timers_.erase({jobs_.at(sequence).visible_at, sequence});
  out_.erase(out);
  make_ready(sequence);
}

void JobTable::drop(Sequence sequence) {
  const auto held = jobs_.find(sequence);
  bytes_ -= static_cast<int64_t>(held->second.job.bytes.size());
  ready_[static_cast<size_t>(held->second.job.priority)].erase(sequence);
  if (const auto out = out_.find(static_cast<uint64_t>(held->second.tag));
      out != out_.end() && out->second == sequence) {
    timers_.erase({held->second.visible_at, sequence});
    out_.erase(out);
  }
  jobs_.erase(held);
}

}  // namespace cheetah::cluster
