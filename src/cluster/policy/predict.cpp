// SPDX-License-Identifier: MIT
#include "cluster/policy/predict.h"

#include <algorithm>
#include <cmath>

#include "cluster/policy/offload.h"
#include "cluster/policy/route.h"

namespace cheetah::cluster {
namespace {

double prefill_us(const WorkerView& worker, const CostModel& cost) {
  return worker.load.prefill_us_per_token > 0 ? worker.load.prefill_us_per_token : cost.prefill_us_per_token;
}

double remaining_tokens(const WorkerView& worker) {  // of one choice, on average
  const auto choices = static_cast<double>(std::max<int64_t>(1, worker.load.running + worker.load.waiting));
  return std::max(1.0, static_cast<double>(worker.load.decode_tokens) / choices);
}

double token_bytes(const KvDescriptor& kv) {
  return static_cast<double>(kv.page_bytes) / std::max(1, kv.page_tokens);
}

double transfer_rate(const ClusterView& view, const WorkerView& prefill, const CostModel& cost) {
  if (prefill.load.transfer_bytes_per_s > 0) return prefill.load.transfer_bytes_per_s;
  return view.transfer_bytes_per_s > 0 ? view.transfer_bytes_per_s : cost.transfer_bytes_per_s;
}

// Numbers travel in the narrower type of both.
double transfer_ms(const ClusterView& view, const WorkerView& prefill, const WorkerView& decode,
    int64_t tokens, const CostModel& cost) {
  const double bytes = std::min(token_bytes(decode.descriptor.kv), token_bytes(prefill.descriptor.kv));
  const double whole_ms = bytes * static_cast<double>(tokens) / transfer_rate(view, prefill, cost) * 1e3;
  return cost.transfer_overhead_ms + (1 - cost.hidden_transfer) * whole_ms;
}

bool can_prefill_for(const WorkerView& worker, const WorkerView& decode, const RouteRequest& request,
    const RoutingConfig& config) {
  if (worker.descriptor.id == decode.descriptor.id || !serves_prefill(worker.descriptor.role)) return false;
  const Ineligible why = why_not(worker, request, config);
  return (why == Ineligible::kNone || why == Ineligible::kWrongRole) &&
         pages_can_move(worker.descriptor.kv, decode.descriptor.kv);
}

}  // namespace

void StepTimes::add(double batch, double step_us, double alpha) {
  const double keep = 1 - alpha;
  weight_ = keep * weight_ + 1;
  batch_ = keep * batch_ + batch;
  step_ = keep * step_ + step_us;
  batch_batch_ = keep * batch_batch_ + batch * batch;
  batch_step_ = keep * batch_step_ + batch * step_us;
}

double StepTimes::us_per_sequence() const {
  const double spread = weight_ * batch_batch_ - batch_ * batch_;
  if (spread <= 1e-9 * std::max(1.0, weight_ * batch_batch_)) return 0;  // one batch size seen: no slope
  return std::max(0.0, (weight_ * batch_step_ - batch_ * step_) / spread);
}

double StepTimes::at(double batch, double known_batch, double known_us, double fallback_us) const {
  const double slope = us_per_sequence();
  if (known_us > 0) return known_us + slope * std::max(0.0, batch - known_batch);
  if (weight_ > 0) return std::max(0.0, step_ / weight_ + slope * std::max(0.0, batch - batch_ / weight_));
  return fallback_us;
}

double prefill_wait_ms(const WorkerView& worker, const CostModel& cost) {
  const int64_t tokens = worker.load.prefill_tokens + worker.sent_prefill_tokens;
  return static_cast<double>(tokens) * prefill_us(worker, cost) / 1e3;
}

double prefill_ms(const WorkerView& worker, int64_t tokens, const CostModel& cost) {
  return static_cast<double>(tokens) * prefill_us(worker, cost) / 1e3;
}

double step_ms(const WorkerView& worker, const CostModel& cost) {
  return (worker.load.decode_step_us > 0 ? worker.load.decode_step_us : cost.decode_step_us) / 1e3;
}

double place_wait_ms(const WorkerView& worker, const RouteRequest& request, const CostModel& cost) {
  const int64_t places = worker.descriptor.max_sequences;
  const int64_t over = places > 0 ? active_choices(worker) + request.choices - places : 0;
  const double choice_ms = remaining_tokens(worker) * step_ms(worker, cost);
  double wait = 0;
  // With `running` choices of which each takes choice_ms more, one leaves every choice_ms / running.
  if (over > 0)
    wait = static_cast<double>(over) * choice_ms /
           static_cast<double>(std::max<int64_t>(1, worker.load.running));
  const KvDescriptor& kv = worker.descriptor.kv;
  const int64_t new_tokens = request.prompt_tokens - cached_tokens(request, worker.descriptor.id);
  if (worker.load.pages_total > 0 && worker.load.pages_free * std::max(1, kv.page_tokens) < new_tokens)
    wait = std::max(wait, choice_ms);
  return wait;
}

double local_wait_ms(const WorkerView& worker, const RouteRequest& request, const CostModel& cost) {
  return std::max(place_wait_ms(worker, request, cost), prefill_wait_ms(worker, cost));
}

double local_ttft_ms(const WorkerView& worker, const RouteRequest& request, const CostModel& cost) {
  const int64_t tokens = effective_tokens(request, worker.descriptor.id);
  return local_wait_ms(worker, request, cost) + prefill_ms(worker, tokens, cost) + step_ms(worker, cost);
}

std::optional<RemotePrefill> best_remote(const ClusterView& view, const WorkerView& decode,
    const RouteRequest& request, const RoutingConfig& config) {
  const WorkerView* best = nullptr;
  double best_ms = 0, us_sum = 0, num_workers = 0;
  for (const WorkerView& worker : view.workers) {
    if (!can_prefill_for(worker, decode, request, config)) continue;
    ++num_workers;
    us_sum += prefill_us(worker, config.cost);
    const double ms = prefill_wait_ms(worker, config.cost) +
                      prefill_ms(worker, effective_tokens(request, worker.descriptor.id), config.cost);
    if (best && ms >= best_ms) continue;
    best = &worker;
    best_ms = ms;
  }
  if (!best) return std::nullopt;
  const double queue_ms =
      static_cast<double>(view.prefill_queue.tokens) * us_sum / (num_workers * num_workers) / 1e3;
  const int64_t moved = effective_tokens(request, decode.descriptor.id);
  const double own_ms = prefill_ms(*best, effective_tokens(request, best->descriptor.id), config.cost);
  const double after_ms = transfer_ms(view, *best, decode, moved, config.cost) + step_ms(decode, config.cost);
  const double until_pages = std::max(best_ms + queue_ms, place_wait_ms(decode, request, config.cost));
  return RemotePrefill{.worker = best->descriptor.id,
      .ttft_ms = until_pages + after_ms,
      .wait_ms = std::max(0.0, until_pages - own_ms)};
}

std::optional<PrefixFetch> best_fetch(const ClusterView& view, const WorkerView& decode,
    const RouteRequest& request, const RoutingConfig& config, double otherwise_ms) {
  // "always" is for tests of the other way.
  if (!config.fetch.enabled || !request.allow_remote_prefill ||
      config.offload_policy == OffloadPolicy::kAlways)
    return std::nullopt;
  const int64_t page = std::max(1, decode.descriptor.kv.page_tokens);
  const int64_t own = cached_tokens(request, decode.descriptor.id);
  std::optional<PrefixFetch> best;
  for (const WorkerView& worker : view.workers) {
    const WorkerDescriptor& d = worker.descriptor;
    if (d.id == decode.descriptor.id || d.state == WorkerState::kStarting || !worker.reachable) continue;
    if (!pages_can_move(d.kv, decode.descriptor.kv)) continue;
    const int64_t tokens = std::min(cached_tokens(request, d.id), request.prompt_tokens - 1) / page * page;
    if (tokens - own < config.fetch.min_tokens) continue;
    // Nothing hides this transfer: the pages are there, and the rest of the prompt waits for them.
    CostModel cost = config.cost;
    cost.hidden_transfer = 0;
    const double ms = local_wait_ms(decode, request, cost) + step_ms(worker, cost) +
                      transfer_ms(view, worker, decode, tokens - own, cost) +
                      prefill_ms(decode, std::max<int64_t>(1, request.prompt_tokens - tokens), cost) +
                      step_ms(decode, cost);
    if (ms + config.fetch.margin_ms >= otherwise_ms || (best && ms >= best->ttft_ms)) continue;
    best = {.from = d.id, .tokens = tokens, .ttft_ms = ms};
  }
  return best;
}

double choices_then(const WorkerView& worker, double after_ms, const CostModel& cost) {
  // What a choice has left lies anywhere between nothing and twice the mean.
  const double longest_ms = 2 * remaining_tokens(worker) * step_ms(worker, cost);
  const double stay = std::max(0.0, 1 - after_ms / longest_ms);
  return static_cast<double>(worker.load.running) * stay +
         static_cast<double>(worker.load.waiting + worker.sent_choices);
}

Prediction predict(const ClusterView& view, const RouteRequest& request, const RoutingConfig& config,
    const Estimates& estimates) {
  Prediction best;
  const WorkerView* chosen = nullptr;
  for (const WorkerView& worker : view.workers) {
    if (why_not(worker, request, config) != Ineligible::kNone) continue;
    const OffloadAnswer way = decide_by_policy(view, worker, request, config);
    if (chosen && way.ttft_ms() >= best.ttft_ms) continue;
    chosen = &worker;
    best.ttft_ms = way.ttft_ms();
    best.wait_ms = way.wait_ms;
  }
  if (!chosen) return best;
  best.possible = true;
  best.decode = chosen->descriptor.id;
  best.model_ttft_ms = best.ttft_ms;
  const auto added = static_cast<double>(request.choices);
  const double then = choices_then(*chosen, best.ttft_ms, config.cost) + added;
  best.decode_share = then / static_cast<double>(std::max<int64_t>(1, chosen->descriptor.max_sequences));
  best.tpot_ms = estimates.steps.at(then, static_cast<double>(chosen->load.running),
                     chosen->load.decode_step_us, config.cost.decode_step_us) /
                 1e3;
  double in_use = added, places = 0;
  for (const WorkerView& worker : view.workers) {
    const Ineligible why = why_not(worker, request, config);
    if (why != Ineligible::kNone) continue;
    in_use += choices_then(worker, best.ttft_ms, config.cost);
    places += static_cast<double>(worker.descriptor.max_sequences);
  }
  best.cluster_decode_share = in_use / std::max(1.0, places);
  return best;
}

}  // namespace cheetah::cluster
