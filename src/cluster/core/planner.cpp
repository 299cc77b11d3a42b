#include "cluster/core/planner.h"

#include <algorithm>
#include <vector>

namespace cheetah::cluster {
namespace {

double seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

TrafficMix Planner::mix_of(const KnownWorkers& workers, int64_t queue_depth, double elapsed_s) {
  input_rate_.add(static_cast<double>(input_tokens_) / elapsed_s, config_.smoothing);
  output_rate_.add(static_cast<double>(output_tokens_) / elapsed_s, config_.smoothing);
  input_tokens_ = output_tokens_ = 0;
  // What one worker can do, as the mean of those that have measured it; what waits, as time for its pool.
  double prefill_us = 0, decode_rate = 0, prefill_backlog = 0, decode_backlog = 0;
  int64_t measured_prefill = 0, measured_decode = 0, prefill = 0, decode = 0;
  for (const auto& [id, worker] : workers) {
    if (!worker.reachable()) continue;
    const WorkerLoad& load = worker.load;
    const bool prefills = worker.descriptor.role == Role::kPrefill;
    ++(prefills ? prefill : decode);
    if (load.prefill_us_per_token > 0) {
      ++measured_prefill;
      prefill_us += load.prefill_us_per_token;
    }
    if (load.decode_step_us > 0) {
      ++measured_decode;
      decode_rate += static_cast<double>(worker.descriptor.max_sequences) * 1e6 / load.decode_step_us;
    }
    if (prefills)
      prefill_backlog += static_cast<double>(load.prefill_tokens) * load.prefill_us_per_token / 1e6;
    const auto places = static_cast<double>(std::max<int64_t>(1, worker.descriptor.max_sequences));
    const auto over = static_cast<double>(std::max<int64_t>(0, load.running + load.waiting)) - places;
    if (!prefills && over > 0)  // what is generated before the last of them begins
      decode_backlog += static_cast<double>(load.decode_tokens) * over / (over + places) *
                        load.decode_step_us / places / 1e6;
  }
  TrafficMix mix{.input_tokens_per_s = input_rate_.value_or(0),
                 .output_tokens_per_s = output_rate_.value_or(0)};
  if (measured_prefill > 0)
    mix.prefill_tokens_per_s = 1e6 * static_cast<double>(measured_prefill) / prefill_us;
  if (measured_decode > 0) mix.decode_tokens_per_s = decode_rate / static_cast<double>(measured_decode);
  // A job on the queue counts as one that a worker computes now does, on average.
  const double jobs = static_cast<double>(queue_depth) / static_cast<double>(std::max<int64_t>(1, prefill));
  mix.prefill_backlog_s = prefill_backlog * (1 + jobs) / static_cast<double>(std::max<int64_t>(1, prefill));
  mix.decode_backlog_s = decode_backlog / static_cast<double>(std::max<int64_t>(1, decode));
  return mix;
}

PoolSample Planner::sample_of(const KnownWorkers& workers, Role role, int64_t queue_depth) const {
  PoolSample sample;
  double waiting = role == Role::kPrefill ? static_cast<double>(queue_depth) : 0;
  for (const auto& [id, worker] : workers) {
    const bool mine = (worker.descriptor.role == Role::kPrefill) == (role == Role::kPrefill);
    if (!mine || !worker.linked || worker.left || worker.descriptor.state == WorkerState::kDraining) continue;
    ++sample.replicas;
    const WorkerLoad& load = worker.load;
    waiting += static_cast<double>(load.waiting);
    if (role == Role::kPrefill)
      sample.utilization += load.prefill_tokens > 0 ? 1 : 0;
    else
      sample.utilization += static_cast<double>(load.running) /
                            static_cast<double>(std::max<int64_t>(1, worker.descriptor.max_sequences));
    if (load.pages_total > 0)
      sample.kv_usage += 1 - static_cast<double>(load.pages_free) / static_cast<double>(load.pages_total);
  }
  if (sample.replicas == 0) return sample;
  const auto replicas = static_cast<double>(sample.replicas);
  sample.queue_length = waiting / replicas;
  sample.utilization /= replicas;
  sample.kv_usage /= replicas;
  return sample;
}

void Planner::look(const KnownWorkers& workers, int64_t queue_depth, bool acts, Time now) {
  const double elapsed_s = last_ ? std::max(1e-3, seconds(now - *last_)) : seconds(config_.period);
  last_ = now;
  next_ = now + config_.period;
  std::vector<FlipWorker> movable;
  std::map<WorkerId, Since> roles;
  for (const auto& [id, worker] : workers) {
    const Role role = worker.descriptor.role;
    const auto known = roles_.find(id);
    const bool same = known != roles_.end() && known->second.role == role;
    roles[id] = same ? known->second : Since{role, now};
    if ((role != Role::kPrefill && role != Role::kDecode) || !worker.linked || worker.silent || worker.left)
      continue;
    movable.push_back({.id = id,
                       .role = role,
                       .state = worker.descriptor.state,
                       .role_since = roles[id].at,
                       .active = std::max(worker.in_flight, worker.load.running + worker.load.waiting)});
  }
  roles_ = std::move(roles);
  plan_.order.reset();
  plan_.mix = mix_of(workers, queue_depth, elapsed_s);
  plan_.prefill = scale(sample_of(workers, Role::kPrefill, queue_depth), config_.scaling.prefill,
                        config_.scaling, now, prefill_state_);
  plan_.decode = scale(sample_of(workers, Role::kDecode, queue_depth), config_.scaling.decode,
                       config_.scaling, now, decode_state_);
  if (!acts) return;
  plan_.flip = plan_flip(movable, plan_.mix, config_.roles, now, flips_);
  if (!plan_.flip.worker) return;
  const uint64_t epoch = workers.at(*plan_.flip.worker).descriptor.epoch + 1;
  plan_.order = {*plan_.flip.worker, FlipRole{plan_.flip.to, epoch}};
}

}  // namespace cheetah::cluster
