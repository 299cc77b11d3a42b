// SPDX-License-Identifier: MIT
#include "cluster/policy/slo_scaling.h"

#include <algorithm>
#include <cmath>

namespace cheetah::cluster {
namespace {

constexpr double kLevel_s = 10, kSlow_s = 60;  // time constants of the averages
constexpr int64_t kMostReplicas = 100'000;
// A wait in a queue is spread about exponentially: this many times the mean covers 95 of 100.
constexpr double kNearlyAll = 3;

double weight(double seconds, double constant) { return 1 - std::exp(-seconds / constant); }

// Mean wait in front of `workers` that take `service_s` each, always the same (Sakasegawa's approximation).
double mean_wait_s(double busy, double workers, double service_s) {
  if (busy >= 1) return 1e9;
  return service_s * std::pow(busy, std::sqrt(2 * (workers + 1)) - 1) / (2 * workers * (1 - busy));
}

double per_s(const PoolDemand& demand, const SloScaling& goals) {
  return demand.tokens_per_s +
         demand.waiting_tokens / (static_cast<double>(std::max<int64_t>(1, goals.drain_ms)) / 1e3);
}

}  // namespace

void LoadForecast::add(double rate, double seconds) {
  if (!seen_) level_ = slow_ = slower_ = rate;
  seen_ = true;
  level_ += weight(seconds, kLevel_s) * (rate - level_);
  // Two averages in a row give the slope without its noise (Brown).
  slow_ += weight(seconds, kSlow_s) * (rate - slow_);
  slower_ += weight(seconds, kSlow_s) * (slow_ - slower_);
}

double LoadForecast::at(double seconds_ahead) const {
  const double slope = (slow_ - slower_) / kSlow_s;
  return std::max(level_, 2 * slow_ - slower_) + std::max(0.0, slope) * seconds_ahead;
}

double decode_rate(const WorkerRates& rates, double tpot_ms) {
  const auto places = static_cast<double>(std::max<int64_t>(1, rates.max_sequences));
  const double room_us = tpot_ms * 1e3 - rates.step_base_us;
  const double fits = rates.step_us_per_sequence > 0 ? room_us / rates.step_us_per_sequence
                      : room_us >= 0                 ? places
                                                     : 1;
  const double batch = std::clamp(std::floor(fits), 1.0, places);
  const double step_us = rates.step_base_us + batch * rates.step_us_per_sequence;
  return step_us > 0 ? batch * 1e6 / step_us : 0;
}

int64_t decode_replicas(const PoolDemand& demand, const WorkerRates& rates, const SloScaling& goals) {
  const double rate = decode_rate(rates, goals.tpot_ms) * (1 - goals.headroom);
  if (rate <= 0) return 0;
  return std::min(kMostReplicas, static_cast<int64_t>(std::ceil(per_s(demand, goals) / rate)));
}

int64_t prefill_replicas(const PoolDemand& demand, const WorkerRates& rates, const SloScaling& goals) {
  if (rates.prefill_us_per_token <= 0) return 0;
  const double service_s = rates.prefill_us_per_token * std::max(1.0, rates.prompt_tokens) / 1e6;
  const double room_s = goals.ttft_ms / 1e3 - service_s - rates.overhead_ms / 1e3;
  const double busy_all =
      per_s(demand, goals) * rates.prefill_us_per_token / 1e6;  // workers that it keeps busy
  auto replicas = static_cast<int64_t>(std::ceil(busy_all / (1 - goals.headroom)));
  // A goal shorter than the prompt's own time is missed with any number of workers.
  if (room_s <= 0 || replicas == 0) return std::min(replicas, kMostReplicas);
  while (replicas < kMostReplicas && kNearlyAll * mean_wait_s(busy_all / static_cast<double>(replicas),
                                                      static_cast<double>(replicas), service_s) >
                                         room_s)
    ++replicas;
  return replicas;
}

int64_t HeldWish::hold(int64_t needed, Time now, Duration hold) {
  while (!needs_.empty() && needs_.back().second <= needed) needs_.pop_back();
  needs_.emplace_back(now, needed);
  while (needs_.size() > 1 && now - needs_.front().first > hold) needs_.pop_front();
  return needs_.front().second;
}

}  // namespace cheetah::cluster
