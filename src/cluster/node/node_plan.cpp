// SPDX-License-Identifier: MIT
// What the policies want changed in the cluster.
#include "cluster/node/node_state.h"

namespace cheetah::cluster {

// Every owner of clients routes by the queue's depth; moving workers between roles is the central router's
// alone, so that workers with clients of their own do not move one another.
void Node::State::plan(Time now) {
  if (!router) return;
  const int64_t depth = parts.services.jobs->depth().value_or(0);
  // Made in its place: gcc 12 sees uninitialised strings in a moved variant of so small a value.
  turn.inputs.emplace_back(
      std::in_place_type<RouterInput>, std::in_place_type<QueueDepth>, QueueDepth{depth});
  if (!op->seat) return;
  op->seat->look(now);
  const OrderBook& book = op->operations.book();
  const auto plan = parts.routing->plan(router->workers(), depth, now,
      {.acts = op->seat->held(),
          .fixed = op->operations.with_roles(router->workers()),
          .prefill = book.replicas("prefill"),
          .decode = book.replicas("decode")});
  if (!op->seat->held()) return;
  for (const Operations::Flip& flip : op->operations.flips(router->workers(), now))
    op->operations.move(*op->seat, flip, "order");
  if (plan && plan->flip)
    op->operations.move(*op->seat,
        {plan->flip->worker, FlipRole{.role = plan->flip->to, .epoch = plan->flip->epoch}},
        name_of(plan->flip_reason));
}

}  // namespace cheetah::cluster
