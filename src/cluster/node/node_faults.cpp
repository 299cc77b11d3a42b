// What failpoints do to a node (failpoints.h): called only where there are any.
#include "base/format.h"
#include "cluster/node/fault_places.h"
#include "cluster/node/node_state.h"

namespace cheetah::cluster {

Strike Node::State::hit(std::string_view kind, std::string_view name) {
  return parts.failpoints->hit(format("{}.{}", kind, name));
}

// True: it shall not be done.
bool Node::State::struck(const WorkerOutput& output) {
  const Strike strike = hit("do", output_name(output));
  if (strike == Strike::kDouble) {
    WorkerOutput again = output;
    edge->execute(again);
  }
  if (strike != Strike::kFail) return strike == Strike::kDrop;
  if (auto failure = failure_of(output)) feed(std::move(*failure));
  return true;
}

// True: it shall not be told.
bool Node::State::struck(const WorkerInput& input) {
  if (std::holds_alternative<PeerMessage>(input)) return false;  // struck where it came in
  const Strike strike = hit("told", input_name(input));
  if (strike == Strike::kDouble) inputs.emplace_front(input);
  return strike == Strike::kDrop;
}

}  // namespace cheetah::cluster
