// SPDX-License-Identifier: MIT
#include "cluster/policy/decision_ring.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/format.h"

namespace cheetah::cluster {
namespace {

std::string id_text(WorkerId id) { return format("{:016x}", static_cast<uint64_t>(id)); }
std::string key_text(const RequestKey& key) {
  return format("{:016x}/{}", static_cast<uint64_t>(key.uid), static_cast<uint32_t>(key.attempt));
}
Json id_json(const std::optional<WorkerId>& id) { return id ? Json(id_text(*id)) : Json(nullptr); }

Json json_of(const WorkerScore& score) {
  Json json = {{"worker", id_text(score.worker)}, {"cached_tokens", score.cached_tokens}};
  if (score.ineligible != Ineligible::kNone)
    json["ineligible"] = name_of(score.ineligible);
  else
    json["score"] = score.score;
  if (score.hot) json["hot"] = true;
  return json;
}

std::string_view name_of(Verdict verdict) {
  constexpr std::array<std::string_view, 4> kNames = {"accept", "degrade", "other_model", "reject"};
  return kNames.at(static_cast<size_t>(verdict));
}

}  // namespace

std::string line_of(const RoutedRequest& r) {
  const RouteDecision& d = r.decision;
  std::string scores;
  for (const WorkerScore& s : d.scores) {
    if (!scores.empty()) scores += ' ';
    scores += s.ineligible == Ineligible::kNone
                  ? format("{}={:.2f}{}", id_text(s.worker), s.score, s.hot ? "(hot)" : "")
                  : format("{}={}", id_text(s.worker), name_of(s.ineligible));
  }
  return format(
      "route {} class={} prompt={} to_compute={} decode={} why={} policy={} prefill={} why={} policy={} "
      "local_ms={:.1f} remote_ms={:.1f}{} scores=[{}]",
      key_text(r.key), printable(r.qos_class), r.prompt_tokens, d.effective_tokens,
      d.decode ? id_text(*d.decode) : "none", name_of(d.worker_reason), name_of(d.worker_policy),
      d.prefill == PrefillMode::kRemote ? "remote" : "local", name_of(d.prefill_reason),
      name_of(d.offload_policy), d.local_ms, d.remote_ms,
      d.fetch_from
          ? format(" fetch={}/{} fetch_ms={:.1f}", id_text(*d.fetch_from), d.fetch_tokens, d.fetch_ms)
          : "",
      scores);
}

std::string line_of(const RefusedRequest& r) {
  const AdmissionDecision& d = r.decision;
  return format(
      "{} {} class={} prompt={} why={} retry_after_s={:.0f} ttft_ms={:.1f} tpot_ms={:.2f} "
      "decode_share={:.2f}",
      name_of(d.verdict), key_text(r.key), printable(r.qos_class), r.prompt_tokens, name_of(d.reason),
      d.retry_after_s, d.prediction.ttft_ms, d.prediction.tpot_ms, d.prediction.cluster_decode_share);
}

Json json_of(const RoutedRequest& r) {
  const RouteDecision& d = r.decision;
  Json scores = Json::array();
  for (const WorkerScore& s : d.scores) scores.push_back(json_of(s));
  return {{"time_s", r.time_s}, {"request", key_text(r.key)}, {"class", r.qos_class},
      {"prompt_tokens", r.prompt_tokens}, {"tokens_to_compute", d.effective_tokens},
      {"decode", id_json(d.decode)}, {"decode_reason", name_of(d.worker_reason)},
      {"worker_policy", name_of(d.worker_policy)}, {"race", id_json(d.race)},
      {"prefill", d.prefill == PrefillMode::kRemote ? "remote" : "local"},
      {"prefill_worker", id_json(d.prefill_worker)}, {"prefill_reason", name_of(d.prefill_reason)},
      {"offload_policy", name_of(d.offload_policy)}, {"offload_score", d.offload_score},
      {"local_ms", d.local_ms}, {"remote_ms", d.remote_ms}, {"scores", std::move(scores)}};
}

Json json_of(const RefusedRequest& r) {
  const AdmissionDecision& d = r.decision;
  return {{"time_s", r.time_s}, {"request", key_text(r.key)}, {"class", r.qos_class},
      {"prompt_tokens", r.prompt_tokens}, {"verdict", name_of(d.verdict)}, {"reason", name_of(d.reason)},
      {"retry_after_s", d.retry_after_s}, {"predicted_ttft_ms", d.prediction.ttft_ms},
      {"predicted_tpot_ms", d.prediction.tpot_ms},
      {"predicted_decode_share", d.prediction.cluster_decode_share}};
}

std::vector<RoutedRequest> DecisionRing::last(int64_t num_decisions) const {
  const auto held = std::min<uint64_t>(count_, ring_.size());
  const auto wanted = std::min<uint64_t>(held, static_cast<uint64_t>(std::max<int64_t>(0, num_decisions)));
  std::vector<RoutedRequest> result;
  for (uint64_t i = count_ - wanted; i < count_; ++i) result.push_back(ring_[i % ring_.size()]);
  return result;
}

}  // namespace cheetah::cluster
