// SPDX-License-Identifier: MIT
#include "cluster/node/outside_requests.h"

#include <algorithm>
#include <utility>

namespace cheetah::cluster {
namespace {

constexpr size_t kMostFallbacks = 3;

// Those of the subset that decode.
KnownWorkers candidates_of(
    const KnownWorkers& workers, const std::optional<std::vector<std::string>>& hosts) {
  KnownWorkers candidates;
  for (const auto& [id, worker] : workers) {
    const bool allowed = !hosts || std::ranges::find(*hosts, worker.descriptor.host) != hosts->end();
    if (allowed && worker.decodes()) candidates.emplace(id, worker);
  }
  return candidates;
}

// For a gateway that finds the first one gone.
void add_fallbacks(
    const KnownWorkers& candidates, WorkerId chosen, Time now, std::vector<std::string>& hosts) {
  std::vector<std::pair<int64_t, const KnownWorker*>> others;
  for (const auto& [id, worker] : candidates)
    if (id != chosen && worker.usable(now))
      others.emplace_back(worker.load.running + worker.load.waiting, &worker);
  std::ranges::stable_sort(others, {}, &std::pair<int64_t, const KnownWorker*>::first);
  for (size_t i = 0; i < std::min(others.size(), kMostFallbacks); ++i)
    hosts.push_back(others[i].second->descriptor.host);
}

}  // namespace

PlaceAnswer OutsideRequests::place(ClientRequest client, const std::optional<std::vector<std::string>>& hosts,
    const KnownWorkers& workers, int64_t queue_depth, Time now) {
  client.uid = make_uid(self_, next_++);
  const KnownWorkers candidates = candidates_of(workers, hosts);
  const RouteQuestion question{
      .client = client, .workers = candidates, .queue_depth = queue_depth, .now = now};
  const bool reachable =
      std::ranges::any_of(candidates, [](const auto& known) { return known.second.reachable(); });
  PlaceAnswer answer;
  if (!reachable) {
    answer.no_worker = true;
    answer.why = hosts ? "none of the endpoints of the subset is ready" : "no worker is ready";
    return answer;
  }
  const bool counts = !client.request.prompt.empty();
  if (counts) {
    Admission admission = routing_.admit(question);
    if (admission.kind == Admission::Kind::kReject) {
      answer.refusal = std::move(admission.refusal);
      answer.why = std::move(admission.why);
      answer.retry_after = admission.retry_after;
      return answer;
    }
  }
  const Placement placement = routing_.route(question);
  if (!placement.decode) {
    if (counts) routing_.observe({.client = client}, now);
    answer.no_worker = true;
    answer.why = placement.why;
    return answer;
  }
  answer.hosts.push_back(candidates.at(*placement.decode).descriptor.host);
  add_fallbacks(candidates, *placement.decode, now, answer.hosts);
  answer.why = placement.why;
  if (!counts) return answer;
  answer.uid = client.uid;
  placed_.emplace(answer.uid, Placed{std::move(client), *placement.decode, placement.effective_tokens});
  return answer;
}

void OutsideRequests::ended(const PlacedEnd& end, Time now) {
  const auto node = placed_.extract(end.uid);
  if (node.empty()) return;
  const Placed& placed = node.mapped();
  routing_.observe({.client = placed.client,
                       .decode = placed.worker,
                       .effective_tokens = placed.effective_tokens,
                       .first_token = end.first_token,
                       .total = end.total,
                       .attempts = 1,
                       .completed = end.completed},
      now);
}

}  // namespace cheetah::cluster
