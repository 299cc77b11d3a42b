// SPDX-License-Identifier: MIT
// What the policies want changed in the cluster.
#include "base/format.h"
#include "cluster/node/node_state.h"
#include "observe/event_log.h"

namespace cheetah::cluster {

// Every owner of clients routes by the queue's depth; moving workers between roles is the central router's
// alone, so that workers with clients of their own do not move one another.
void Node::State::plan(Time now) {
  if (!router) return;
  const int64_t depth = parts.services.jobs->depth().value_or(0);
  // Made in its place: gcc 12 sees uninitialised strings in a moved variant of so small a value.
  inputs.emplace_back(std::in_place_type<RouterInput>, std::in_place_type<QueueDepth>, QueueDepth{depth});
  if (config.role != Role::kRouter) return;
  const auto plan = parts.routing->plan(router->workers(), depth, now);
  if (!plan || !plan->flip) return;
  const PlannedFlip& flip = *plan->flip;
  send(flip.worker, FlipRole{.role = flip.to, .epoch = flip.epoch});
  if (parts.log)
    parts.log->write(LogLevel::kInfo, "flip",
        {{"worker", format("{:016x}", static_cast<uint64_t>(flip.worker))},
            {"to", flip.to == Role::kPrefill ? "prefill" : "decode"},
            {"why", std::string(name_of(plan->flip_reason))}});
}

}  // namespace cheetah::cluster
