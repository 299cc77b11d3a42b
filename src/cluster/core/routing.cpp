// SPDX-License-Identifier: MIT
#include "cluster/core/routing.h"

#include <algorithm>
#include <tuple>

#include "base/format.h"

namespace cheetah::cluster {

Admission LeastLoaded::admit(const RouteQuestion&) { return {}; }

Placement LeastLoaded::route(const RouteQuestion& question) {
  struct Candidate {
    bool lost, held_off, other;
    int64_t load;
    WorkerId id;
    auto operator<=>(const Candidate&) const = default;
  };
  std::vector<Candidate> candidates;
  std::optional<WorkerId> prefill;
  int64_t least_prefill = 0;
  for (const auto& [id, worker] : question.workers) {
    if (!worker.reachable()) continue;
    if (!question.client.model.empty() && worker.descriptor.model != question.client.model) continue;
    const bool lost = std::find(question.lost.begin(), question.lost.end(), id) != question.lost.end();
    const int64_t load = std::max(worker.in_flight, worker.load.running + worker.load.waiting);
    if (worker.decodes())
      candidates.push_back({lost, worker.held_off_until > question.now, id != question.self, load, id});
    if (worker.descriptor.role != Role::kPrefill || !worker.usable(question.now)) continue;
    if (!prefill || worker.load.prefill_tokens < least_prefill) prefill = id;
    if (*prefill == id) least_prefill = worker.load.prefill_tokens;
  }
  Placement placement;
  placement.effective_tokens = static_cast<int64_t>(question.client.request.prompt.size());
  if (candidates.empty()) {
    placement.why = "no decode worker can be reached";
    return placement;
  }
  std::sort(candidates.begin(), candidates.end());
  placement.decode = candidates.front().id;
  if (question.client.race && candidates.size() > 1 && question.generated == 0)
    placement.second = candidates[1].id;
  const bool elsewhere = prefill && placement.effective_tokens >= remote_from_tokens_;
  if (elsewhere) placement.prefill = PrefillPlace::kElsewhere;
  if (elsewhere) placement.prefill_hint = prefill;
  placement.why = format("least loaded of {} ({} choices), prompt of {} computed {}", candidates.size(),
      candidates.front().load, placement.effective_tokens, elsewhere ? "elsewhere" : "there");
  return placement;
}

}  // namespace cheetah::cluster
