// SPDX-License-Identifier: MIT
#include "cluster/policy/simulation/scaling_day.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/random.h"

namespace cheetah::cluster::throughput {
namespace {

constexpr int kDay_s = 86'400;
constexpr int64_t kMostReplicas = 64;
constexpr double kBatchInTime = 100;  // whose steps take the goal: a reactive scaler's full worker

// Requests of each second: night and noon, bursts that come within two minutes, and chance.
std::vector<double> arrivals(const DayShape& shape) {
  Philox draw(shape.seed);
  std::vector<double> rps(kDay_s);
  for (int t = 0; t < kDay_s; ++t) {
    const double hill = std::sin(std::numbers::pi * t / kDay_s);
    double mean = shape.night_rps + (shape.noon_rps - shape.night_rps) * hill * hill;
    for (const int begin : shape.bursts_s) {
      const double into = t - begin;
      if (into < 0 || into >= shape.burst_s + shape.ramp_s) continue;
      const double height =
          std::min({1.0, into / shape.ramp_s, (shape.burst_s + shape.ramp_s - into) / shape.ramp_s});
      mean *= 1 + (shape.burst_factor - 1) * height;
    }
    // Normal is close enough to Poisson at such rates.
    const double a = std::max(1e-12, double{draw.next_uniform()}), b = draw.next_uniform();
    const double normal = std::sqrt(-2 * std::log(a)) * std::cos(2 * std::numbers::pi * b);
    rps[static_cast<size_t>(t)] = std::max(0.0, mean + std::sqrt(mean) * normal);
  }
  return rps;
}

// Workers that are ready, and those that load. A crashed worker is started again by the keeper of the wish.
struct Workers {
  double ready = 1;
  std::deque<double> loading;  // when each is ready

  void follow(int64_t wish, double now, double start_s) {
    while (!loading.empty() && loading.front() <= now) ready += 1, loading.pop_front();
    while (ready + static_cast<double>(loading.size()) < static_cast<double>(wish))
      loading.push_back(now + start_s);
    while (ready + static_cast<double>(loading.size()) > static_cast<double>(wish) && !loading.empty())
      loading.pop_back();
    ready = std::min(ready, static_cast<double>(wish));
  }
  void crash() { ready = std::floor(ready / 2); }
  double there() const { return ready + static_cast<double>(loading.size()); }
};

struct Cluster {
  Workers prefill, decode;
  double prompts = 0;    // tokens that wait for a prefill worker
  double sequences = 0;  // that decode or wait for a place
};

struct Second {
  bool in_time = false;
  double prefill_busy = 0, decode_busy = 0;  // of those ready
};

double step_s(const WorkerRates& rates, double batch) {
  return (rates.step_base_us + rates.step_us_per_sequence * batch) / 1e6;
}

Second pass_second(
    Cluster& cluster, double rps, const DayShape& shape, const WorkerRates& rates, const SloScaling& goals) {
  Second second;
  const double prefill_rate = cluster.prefill.ready * 1e6 / rates.prefill_us_per_token;
  cluster.prompts += rps * shape.prompt_tokens;
  const double computed = std::min(cluster.prompts, prefill_rate);
  second.prefill_busy = prefill_rate > 0 ? computed / prefill_rate : 1;
  // What is left waits; within the second arrivals are not even: the wait of a queue at this load.
  cluster.prompts -= computed;
  const double service_s = rates.prefill_us_per_token * shape.prompt_tokens / 1e6;
  const double busy = std::min(second.prefill_busy, 0.999), workers = std::max(1.0, cluster.prefill.ready);
  const double queue_s =
      service_s * std::pow(busy, std::sqrt(2 * (workers + 1)) - 1) / (2 * workers * (1 - busy));
  cluster.sequences += computed / shape.prompt_tokens;
  const double places = cluster.decode.ready * static_cast<double>(rates.max_sequences);
  const double running = std::min(cluster.sequences, places);
  const double batch = cluster.decode.ready > 0 ? running / cluster.decode.ready : 0;
  const double step = step_s(rates, batch);
  second.decode_busy = places > 0 ? batch / kBatchInTime : 1;
  const double waits_s = cluster.sequences > places ? (cluster.sequences - places) * shape.output_tokens *
                                                          step / std::max(1.0, places)
                                                    : 0;
  cluster.sequences -= std::min(cluster.sequences, running / (shape.output_tokens * step));
  const double backlog_s = prefill_rate > 0 ? cluster.prompts / prefill_rate : 1e9;
  const double ttft_s = backlog_s + 3 * queue_s + service_s + waits_s + step + rates.overhead_ms / 1e3;
  second.in_time = cluster.decode.ready > 0 && ttft_s <= goals.ttft_ms / 1e3 && step <= goals.tpot_ms / 1e3;
  return second;
}

struct PoolWishes {
  int64_t prefill = 1, decode = 1;
  bool operator==(const PoolWishes&) const = default;
};

PoolWishes bounded(PoolWishes wish) {
  return {std::clamp<int64_t>(wish.prefill, 1, kMostReplicas),
      std::clamp<int64_t>(wish.decode, 1, kMostReplicas)};
}

class SloDay {
 public:
  PoolWishes wish(const Cluster& cluster, double rps, const DayShape& shape, int t) {
    const WorkerRates rates = day_rates();
    SloScaling goals = day_goals();
    goals.horizon_ms = static_cast<int64_t>(shape.start_s * 1e3);
    input_.add(rps * shape.prompt_tokens, 1);
    output_.add(rps * shape.output_tokens, 1);
    const double places = cluster.decode.ready * static_cast<double>(rates.max_sequences);
    const double waiting = std::max(0.0, cluster.sequences - places) * shape.output_tokens;
    const Time now{std::chrono::seconds(t)};
    const Duration hold = std::chrono::milliseconds(goals.hold_ms);
    const double ahead = static_cast<double>(goals.horizon_ms) / 1e3;
    return bounded(
        {prefill_.hold(prefill_replicas({input_.at(ahead), cluster.prompts}, rates, goals), now, hold),
            decode_.hold(decode_replicas({output_.at(ahead), waiting}, rates, goals), now, hold)});
  }

 private:
  LoadForecast input_, output_;
  HeldWish prefill_, decode_;
};

// As a HorizontalPodAutoscaler with a target of 70 % of utilization: every 15 s, and down only to the most it
// wanted within five minutes.
class ReactiveDay {
 public:
  PoolWishes wish(const Cluster& cluster, const Second& last, int t) {
    if (t % 15 != 0) return wish_;
    const auto wanted = [](double ready, double busy, int64_t present) {
      const double ratio = busy / 0.7;
      return std::abs(ratio - 1) <= 0.1 ? present : static_cast<int64_t>(std::ceil(ready * ratio));
    };
    const Time now{std::chrono::seconds(t)};
    const auto five_minutes = std::chrono::minutes(5);
    wish_ = bounded(
        {prefill_.hold(wanted(cluster.prefill.ready, last.prefill_busy, wish_.prefill), now, five_minutes),
            decode_.hold(wanted(cluster.decode.ready, last.decode_busy, wish_.decode), now, five_minutes)});
    return wish_;
  }

 private:
  PoolWishes wish_;
  HeldWish prefill_, decode_;
};

// Knows the day beforehand: starts what will be needed just in time and keeps nothing for longer than that.
std::vector<PoolWishes> oracle_wishes(const std::vector<double>& rps, const DayShape& shape) {
  const WorkerRates rates = day_rates();
  SloScaling goals = day_goals();
  goals.headroom = 0.08;  // chance within the second
  std::vector<PoolWishes> needs(rps.size()), wishes(rps.size());
  for (size_t t = 0; t < rps.size(); ++t)
    needs[t] = bounded({prefill_replicas({rps[t] * shape.prompt_tokens, 0}, rates, goals),
        decode_replicas({rps[t] * shape.output_tokens, 0}, rates, goals)});
  const auto ahead = static_cast<size_t>(shape.start_s) + 1;
  for (size_t t = 0; t < rps.size(); ++t)
    for (size_t u = t; u < std::min(rps.size(), t + ahead); ++u)
      wishes[t] = {
          std::max(wishes[t].prefill, needs[u].prefill), std::max(wishes[t].decode, needs[u].decode)};
  return wishes;
}

}  // namespace

WorkerRates day_rates() {
  return {.prefill_us_per_token = 40,
      .step_base_us = 8000,
      .step_us_per_sequence = 120,
      .max_sequences = 128,
      .prompt_tokens = 1000,
      .overhead_ms = 15};
}

SloScaling day_goals() { return {.enabled = true, .ttft_ms = 500, .tpot_ms = 20}; }

DayReport run_day(const DayShape& shape, DayScaler scaler) {
  const std::vector<double> rps = arrivals(shape);
  const std::vector<PoolWishes> known =
      scaler == DayScaler::kOracle ? oracle_wishes(rps, shape) : std::vector<PoolWishes>();
  const WorkerRates rates = day_rates();
  const SloScaling goals = day_goals();
  SloDay slo;
  ReactiveDay reactive;
  Cluster cluster;
  cluster.prefill.ready = cluster.decode.ready = 2;
  DayReport report;
  double requests = 0, in_time = 0;
  Second last;
  PoolWishes before{2, 2};
  for (int t = 0; t < kDay_s; ++t) {
    if (std::ranges::find(shape.crashes_s, t) != shape.crashes_s.end()) {
      cluster.prefill.crash();
      cluster.decode.crash();
    }
    const double now_rps = rps[static_cast<size_t>(t)];
    const PoolWishes wish = scaler == DayScaler::kSlo        ? slo.wish(cluster, now_rps, shape, t)
                            : scaler == DayScaler::kReactive ? reactive.wish(cluster, last, t)
                                                             : known[static_cast<size_t>(t)];
    report.changes += wish.prefill != before.prefill;
    report.changes += wish.decode != before.decode;
    before = wish;
    report.decode_wishes.push_back(wish.decode);
    cluster.prefill.follow(wish.prefill, t, shape.start_s);
    cluster.decode.follow(wish.decode, t, shape.start_s);
    last = pass_second(cluster, now_rps, shape, rates, goals);
    requests += now_rps;
    if (last.in_time) in_time += now_rps;
    report.replica_hours += (cluster.prefill.there() + cluster.decode.there()) / 3600;
  }
  report.in_time = in_time / requests;
  return report;
}

}  // namespace cheetah::cluster::throughput
