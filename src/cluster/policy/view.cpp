// SPDX-License-Identifier: MIT
#include "cluster/policy/view.h"

#include <algorithm>

#include "cluster/transfer/kv_compat.h"

namespace cheetah::cluster {

const WorkerView* find_worker(const ClusterView& view, WorkerId id) {
  for (const WorkerView& worker : view.workers)
    if (worker.descriptor.id == id) return &worker;
  return nullptr;
}

int64_t cached_tokens(const RouteRequest& request, WorkerId worker) {
  for (const KvMatch& match : request.cached)
    if (match.worker == worker) return std::clamp<int64_t>(match.tokens, 0, request.prompt_tokens);
  return 0;
}

int64_t effective_tokens(const RouteRequest& request, WorkerId worker) {
  return std::max<int64_t>(1, request.prompt_tokens - cached_tokens(request, worker));
}

double matched_fraction(const RouteRequest& request, WorkerId worker) {
  if (request.prompt_tokens <= 0) return 0;
  return static_cast<double>(cached_tokens(request, worker)) / static_cast<double>(request.prompt_tokens);
}

double kv_occupancy(const WorkerView& worker) {
  const WorkerLoad& load = worker.load;
  if (load.pages_total <= 0) return 0;
  return 1 - static_cast<double>(load.pages_free) / static_cast<double>(load.pages_total);
}

int64_t active_choices(const WorkerView& worker) {
  return worker.load.running + worker.load.waiting + worker.sent_choices;
}

double slot_share(const WorkerView& worker) {
  const auto places = static_cast<double>(std::max<int64_t>(1, worker.descriptor.max_sequences));
  return static_cast<double>(active_choices(worker)) / places;
}

bool serves_decode(Role role) { return role == Role::kDecode || role == Role::kBoth; }
bool serves_prefill(Role role) { return role == Role::kPrefill || role == Role::kBoth; }

bool pages_can_move(const KvDescriptor& from, const KvDescriptor& to) {
  return match_sender(from, to).verdict != KvCompatibility::kRefuse;
}

std::string_view name_of(Ineligible why) {
  switch (why) {
    case Ineligible::kNone:
      return "none";
    case Ineligible::kNotReady:
      return "not_ready";
    case Ineligible::kUnreachable:
      return "unreachable";
    case Ineligible::kSilent:
      return "silent";
    case Ineligible::kWrongRole:
      return "wrong_role";
    case Ineligible::kOtherModel:
      return "other_model";
    case Ineligible::kContextTooShort:
      return "context_too_short";
    case Ineligible::kExcluded:
      return "excluded";
  }
  return "unknown";
}

}  // namespace cheetah::cluster
