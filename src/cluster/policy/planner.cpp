// SPDX-License-Identifier: MIT
#include "cluster/policy/planner.h"

#include <algorithm>
#include <utility>

#include "cluster/policy/predict.h"

namespace cheetah::cluster {
namespace {

constexpr std::chrono::seconds kPeriod{1};
constexpr double kAlpha = 0.2;

WorkerView view_of(const KnownWorker& known) { return {.descriptor = known.descriptor, .load = known.load}; }

struct Pool {
  int64_t replicas = 0;  // there or starting
  double waiting = 0, share = 0, occupancy = 0;
};

Pool pool_of(const KnownWorkers& workers, Role role) {
  Pool pool;
  for (const auto& [id, known] : workers) {
    if (known.descriptor.role != role || !known.linked || known.descriptor.state == WorkerState::kDraining)
      continue;
    ++pool.replicas;
    pool.waiting += static_cast<double>(known.load.waiting);
    pool.share += std::min(1.0, slot_share(view_of(known)));
    pool.occupancy += kv_occupancy(view_of(known));
  }
  const auto count = static_cast<double>(std::max<int64_t>(1, pool.replicas));
  pool.waiting /= count;
  pool.share /= count;
  pool.occupancy /= count;
  return pool;
}

// Where there are several routers each sees its own clients: by how much of the workers' work is its own, it
// knows what comes to all.
double whole_of_own(const KnownWorkers& workers) {
  double all = 0, own = 0;
  for (const auto& [id, known] : workers) {
    if (!known.decodes()) continue;
    all += static_cast<double>(known.load.running + known.load.waiting);
    own += static_cast<double>(known.in_flight);
  }
  constexpr double kMostRouters = 64, kFewest = 4;  // of less nothing can be told
  return own >= kFewest ? std::clamp(all / own, 1.0, kMostRouters) : 1;
}

}  // namespace

void Planner::measure(double seconds, const KnownWorkers& workers) {
  input_rate_.add(input_tokens_ / seconds, kAlpha);
  output_rate_.add(output_tokens_ / seconds, kAlpha);
  const double whole = whole_of_own(workers);
  prefill_slo_.load.add(whole * computed_tokens_ / seconds, seconds);
  decode_slo_.load.add(whole * output_tokens_ / seconds, seconds);
  if (requests_ > 0) computed_each_.add(computed_tokens_ / requests_, kAlpha);
  input_tokens_ = output_tokens_ = computed_tokens_ = requests_ = 0;
}

void Planner::scale_by_goals(const PlanQuestion& question, const Estimates& estimates,
    const PolicyConfig& config, Time now, Plan& plan) {
  const SloScaling& goals = config.autoscale.slo;
  const CostModel& cost = config.routing.cost;
  WorkerRates& rates = rates_;
  rates.prompt_tokens = computed_each_.value_or(0);
  double us_sum = 0, num_prefill = 0, places = 0, num_decode = 0, transfer_ms = 0, waiting = 0;
  for (const auto& [id, known] : question.workers) {
    if (known.prefills() && known.load.prefill_us_per_token > 0)
      us_sum += known.load.prefill_us_per_token, ++num_prefill;
    if (!known.decodes()) continue;
    places += static_cast<double>(known.descriptor.max_sequences);
    waiting += static_cast<double>(known.load.waiting);
    ++num_decode;
  }
  if (num_prefill > 0) rates.prefill_us_per_token = us_sum / num_prefill;
  if (num_decode > 0) rates.max_sequences = std::max<int64_t>(1, static_cast<int64_t>(places / num_decode));
  if (estimates.steps.seen()) {
    const auto most = static_cast<double>(rates.max_sequences);
    rates.step_us_per_sequence = estimates.steps.us_per_sequence();
    rates.step_base_us = std::max(0.0, estimates.steps.at(most, 0, 0, 0) - most * rates.step_us_per_sequence);
    transfer_ms = cost.transfer_overhead_ms;
  }
  rates.overhead_ms = transfer_ms + (rates.step_base_us + rates.step_us_per_sequence) / 1e3;
  const double ahead = static_cast<double>(goals.horizon_ms) / 1e3;
  plan.predicted_prefill_per_s = prefill_slo_.load.at(ahead);
  plan.predicted_decode_per_s = decode_slo_.load.at(ahead);
  const auto decide = [&](SloPool& pool, int64_t needed, const PoolScaling& limits, int64_t there) {
    const Duration hold = std::chrono::milliseconds(goals.hold_ms);
    // What is there when planning begins was wanted by somebody: it goes only when it has not been needed.
    if (!std::exchange(pool.begun, true)) pool.wish.hold(std::max(there, needed), now, hold);
    const int64_t held = pool.wish.hold(needed, now, hold);
    return ScaleDecision{.desired = std::clamp(held, limits.min_replicas, limits.max_replicas),
        .reason = needed > 0 ? ScaleReason::kPredicted : ScaleReason::kNoRates};
  };
  plan.prefill = decide(prefill_slo_,
      prefill_replicas(
          {plan.predicted_prefill_per_s, static_cast<double>(question.queue_tokens)}, rates, goals),
      config.autoscale.prefill, plan.prefill.desired);
  plan.decode = decide(decode_slo_,
      decode_replicas(
          {plan.predicted_decode_per_s, waiting * estimates.output_tokens.value_or(0)}, rates, goals),
      config.autoscale.decode, plan.decode.desired);
}

// The dwell of a worker counts from when its role was first seen.
void Planner::look_at(const KnownWorkers& workers, Time now) {
  std::erase_if(seen_, [&](const auto& entry) { return workers.count(entry.first) == 0; });
  for (const auto& [id, known] : workers) {
    const WorkerDescriptor& d = known.descriptor;
    const auto found = seen_.find(id);
    if (found == seen_.end() || found->second.role != d.role || found->second.epoch != d.epoch)
      seen_[id] = {.role = d.role, .epoch = d.epoch, .since = now};
  }
}

TrafficMix Planner::mix_of(const KnownWorkers& workers, int64_t queue_tokens, const Estimates& estimates,
    const CostModel& cost) const {
  TrafficMix mix{
      .input_tokens_per_s = input_rate_.value_or(0), .output_tokens_per_s = output_rate_.value_or(0)};
  double prefill = 0, decode = 0, waiting = 0;
  int64_t num_prefill = 0, num_decode = 0;
  for (const auto& [id, known] : workers) {
    const WorkerView view = view_of(known);
    const auto places = static_cast<double>(std::max<int64_t>(1, known.descriptor.max_sequences));
    if (known.descriptor.role == Role::kPrefill) {
      ++num_prefill;
      prefill += 1e3 / prefill_ms(view, 1, cost);
    } else if (known.descriptor.role == Role::kDecode) {
      ++num_decode;
      decode += places * 1e6 /
                estimates.steps.at(places, static_cast<double>(known.load.running), known.load.decode_step_us,
                    cost.decode_step_us);
      waiting += static_cast<double>(known.load.waiting);
    }
  }
  if (num_prefill > 0) mix.prefill_tokens_per_s = prefill / static_cast<double>(num_prefill);
  if (num_decode > 0) mix.decode_tokens_per_s = decode / static_cast<double>(num_decode);
  if (prefill > 0) mix.prefill_backlog_s = static_cast<double>(queue_tokens) / prefill;
  if (decode > 0) mix.decode_backlog_s = waiting * estimates.output_tokens.value_or(1) / decode;
  return mix;
}

std::optional<Plan> Planner::plan(
    const PlanQuestion& question, const Estimates& estimates, const PolicyConfig& config, Time now) {
  const KnownWorkers& workers = question.workers;
  const int64_t queue_depth = question.queue_depth;
  if (last_ && now - *last_ < kPeriod) return std::nullopt;
  if (last_) measure(std::chrono::duration<double>(now - *last_).count(), workers);
  last_ = now;
  look_at(workers, now);
  std::vector<FlipWorker> all;
  for (const auto& [id, known] : workers)
    if (known.linked && known.cordon == Cordon::kNone &&
        (known.descriptor.role == Role::kPrefill || known.descriptor.role == Role::kDecode))
      all.push_back({.id = id,
          .role = known.descriptor.role,
          .state = known.descriptor.state,
          .role_since = seen_.at(id).since,
          .active = known.load.running + known.load.waiting,
          .fixed = question.orders.fixed.contains(id)});
  const TrafficMix mix = mix_of(workers, question.queue_tokens, estimates, config.routing.cost);
  FlipConfig roles = config.roles;
  roles.enabled = roles.enabled && question.orders.acts;
  const FlipDecision flip = plan_flip(all, mix, roles, now, flips_);
  Plan plan{.flip_reason = flip.reason, .imbalance = flip.imbalance};
  if (flip.worker)
    plan.flip = {
        .worker = *flip.worker, .to = flip.to, .epoch = workers.at(*flip.worker).descriptor.epoch + 1};
  const Pool prefill = pool_of(workers, Role::kPrefill), decode = pool_of(workers, Role::kDecode);
  plan.prefill.desired = prefill.replicas;
  plan.decode.desired = decode.replicas;
  if (!config.autoscale.enabled) return plan;
  if (config.autoscale.slo.enabled) {
    scale_by_goals(question, estimates, config, now, plan);
    return plan;
  }
  const auto prefill_count = static_cast<double>(std::max<int64_t>(1, prefill.replicas));
  const double busy =
      mix.prefill_tokens_per_s > 0 ? mix.input_tokens_per_s / (mix.prefill_tokens_per_s * prefill_count) : 0;
  plan.prefill = scale({.replicas = prefill.replicas,
                           .queue_length = prefill.waiting + static_cast<double>(queue_depth) / prefill_count,
                           .utilization = busy,
                           .kv_usage = prefill.occupancy},
      config.autoscale.prefill, config.autoscale, now, prefill_scale_);
  plan.decode = scale({.replicas = decode.replicas,
                          .queue_length = decode.waiting,
                          .utilization = decode.share,
                          .kv_usage = decode.occupancy},
      config.autoscale.decode, config.autoscale, now, decode_scale_);
  return plan;
}

}  // namespace cheetah::cluster
