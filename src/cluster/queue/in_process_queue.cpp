// SPDX-License-Identifier: MIT
#include "cluster/queue/in_process_queue.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace cheetah::cluster {

using Clock = std::chrono::steady_clock;

namespace {

// Several threads may wait on one queue and a wake-up reaches one of them: the others look by themselves.
constexpr std::chrono::milliseconds kLongestSleep{20};

}  // namespace

JobStore::JobStore(JobQueueConfig config)
    : state_(State{.table = JobTable(config), .service = {true, Clock::now(), {}}, .waiters = {}}) {}

void JobStore::set_up(bool up) {
  state_.with([&](State& state) {
    if (state.service.up == up) return;
    state.service = {up, Clock::now(), up ? "" : "the in-process queue was taken down"};
    wake_all(state);
  });
}

void JobStore::wake_all(State& state) {
  for (auto& [id, waiter] : state.waiters) waiter->ring();
}

InProcessJobQueue::InProcessJobQueue(std::shared_ptr<JobStore> store)
    : store_(std::move(store)), waiter_(store_->state_.with([&](JobStore::State& state) {
        state.waiters.emplace(state.next_waiter, &wake_up_);
        return state.next_waiter++;
      })) {}

InProcessJobQueue::~InProcessJobQueue() {
  store_->state_.with([&](JobStore::State& state) { state.waiters.erase(waiter_); });
}

void InProcessJobQueue::push(Job job, PushCallback done) {
  check_job(job);
  const PushResult result = store_->state_.with([&](JobStore::State& state) {
    if (!state.service.up) return PushResult::kUnavailable;
    const PushResult pushed = state.table.push(std::move(job), Clock::now());
    if (pushed == PushResult::kQueued) JobStore::wake_all(state);
    return pushed;
  });
  done(result);
}

std::optional<Delivery> InProcessJobQueue::pull(std::chrono::milliseconds wait) {
  const Time deadline = Clock::now() + wait;
  while (true) {
    std::optional<Time> redelivery;
    std::optional<Delivery> delivery = store_->state_.with([&](JobStore::State& state) {
      std::optional<Delivery> next;
      if (state.service.up) next = state.table.pull(Clock::now());
      redelivery = state.table.next_redelivery();
      return next;
    });
    const Time now = Clock::now();
    if (delivery || now >= deadline) return delivery;
    if (wake_up_.wait_until(std::min({deadline, now + kLongestSleep, redelivery.value_or(deadline)})))
      return std::nullopt;
  }
}

void InProcessJobQueue::ack(DeliveryTag tag) {
  store_->state_.with([&](JobStore::State& state) {
    if (state.service.up) state.table.ack(tag);
  });
}

void InProcessJobQueue::nack(DeliveryTag tag) {
  store_->state_.with([&](JobStore::State& state) {
    if (!state.service.up) return;
    state.table.nack(tag, Clock::now());
    JobStore::wake_all(state);
  });
}

void InProcessJobQueue::extend(DeliveryTag tag) {
  store_->state_.with([&](JobStore::State& state) {
    if (state.service.up) state.table.extend(tag, Clock::now());
  });
}

std::optional<int64_t> InProcessJobQueue::depth() {
  return store_->state_.with([](const JobStore::State& state) {
    return state.service.up ? std::optional(state.table.num_jobs() - state.table.num_in_flight())
                            : std::nullopt;
  });
}

ServiceState InProcessJobQueue::state() const {
  return store_->state_.with([](const JobStore::State& state) { return state.service; });
}

}  // namespace cheetah::cluster
