// SPDX-License-Identifier: MIT
// What failpoints do to a node (failpoints.h): called only where there are any.
#include "base/format.h"
#include "cluster/node/fault_places.h"
#include "cluster/node/node_state.h"

namespace cheetah::cluster {

FaultAction Node::State::hit(std::string_view kind, std::string_view name) {
  return parts.failpoints->hit(format("{}.{}", kind, name));
}

// True: it shall not be done.
bool Node::State::injected(const WorkerOutput& output) {
  const FaultAction action = hit("do", output_name(output));
  if (action == FaultAction::kDouble) {
    WorkerOutput again = output;
    edge->execute(again);
  }
  if (action != FaultAction::kFail) return action == FaultAction::kDrop;
  if (auto failure = failure_of(output)) feed(std::move(*failure));
  return true;
}

// True: it shall not be told.
bool Node::State::injected(const WorkerInput& input) {
  if (std::holds_alternative<PeerMessage>(input)) return false;  // injected where it came in
  const FaultAction action = hit("told", input_name(input));
  if (action == FaultAction::kDouble) turn.inputs.emplace_front(input);
  return action == FaultAction::kDrop;
}

}  // namespace cheetah::cluster
