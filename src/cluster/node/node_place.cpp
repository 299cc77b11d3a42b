// SPDX-License-Identifier: MIT
// Requests that do not come through this node, but ask it where to go.
#include <algorithm>

#include "cluster/node/node_state.h"
#include "engine/tags/request_origin.h"

namespace cheetah::cluster {

PlaceAnswer Node::State::place(PlaceQuestion question) {
  const RequestOrigin& origin = origin_of(question.request);
  const auto named = std::ranges::find(parts.models, origin.model, &ServedModel::name);
  const ServedModel& served = named == parts.models.end() ? parts.models.front() : *named;
  const QosConfig& qos = parts.routing->config().qos;
  ClientRequest client;
  client.tenant = origin.tenant;
  client.model = served.id;
  const bool known = std::ranges::find(qos.classes, question.objective, &QosClass::name) != qos.classes.end();
  client.qos_class =
      known ? question.objective
            : qos.classes.at(static_cast<size_t>(cluster::class_of(origin.headers, origin.tenant, qos))).name;
  client.request = std::move(question.request);
  return outside->place(std::move(client), question.hosts, router->workers(),
      parts.services.jobs->depth().value_or(0), std::chrono::steady_clock::now());
}

void Node::place(PlaceQuestion question, std::function<void(PlaceAnswer)> tell) {
  CHEETAH_ASSERT(state_->router != nullptr, "who takes no clients knows no workers");
  state_->loop.post([state = state_.get(), question = std::move(question), tell = std::move(tell)]() mutable {
    tell(state->place(std::move(question)));
  });
}

void Node::placed_ended(const PlacedEnd& end) {
  state_->loop.post(
      [state = state_.get(), end] { state->outside->ended(end, std::chrono::steady_clock::now()); });
}

}  // namespace cheetah::cluster
