// SPDX-License-Identifier: MIT
#include "testing/cluster/planted_bug.h"

#include <variant>

namespace cheetah::cluster::simulation {
namespace {

template <class Said, class Input>
const Said* message_in(const Input& input) {
  const auto* message = std::get_if<PeerMessage>(&input);
  return message == nullptr ? nullptr : std::get_if<Said>(&message->message);
}

void emit(const Tokens& tokens, std::vector<RouterOutput>& outputs) {
  outputs.emplace_back(std::in_place_type<Emit>, Emit{tokens.key.uid, tokens.event, {}});
}

}  // namespace

void RouterWithBug::handle(
    RouterCore& core, RouterInput input, Time now, std::vector<RouterOutput>& outputs) {
  const auto* tokens = message_in<Tokens>(input);
  if (tokens != nullptr && forwards(*tokens, outputs)) return;
  core.handle(std::move(input), now, outputs);
  after(core, now, outputs);
}

bool RouterWithBug::forwards(const Tokens& tokens, std::vector<RouterOutput>& outputs) {
  const auto newest = newest_.find(tokens.key.uid);
  const bool again =
      bug_ == PlantedBug::kForwardsTwice && !heard_.emplace(tokens.key, tokens.sequence).second;
  const bool stale =
      bug_ == PlantedBug::kBelievesStale && newest != newest_.end() && tokens.key.attempt < newest->second;
  if (!again && !stale && forgotten_.count(tokens.key) == 0) return false;
  emit(tokens, outputs);
  return true;
}

// The core may add outputs while they are looked at.
void RouterWithBug::after(RouterCore& core, Time now, std::vector<RouterOutput>& outputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    auto* message = std::get_if<SendMessage>(&outputs[i]);
    auto* generate = message == nullptr ? nullptr : std::get_if<Generate>(&message->message);
    if (generate == nullptr) continue;
    const RequestKey key = generate->key;
    newest_[key.uid] = key.attempt;
    if (bug_ == PlantedBug::kForgetsTokens && !generate->resume.empty()) {
      generate->resume.clear();
      forgotten_.insert(key);
    }
    // As if the worker had said that it has the request.
    if (bug_ == PlantedBug::kCountsBadLuck)
      core.handle(PeerMessage{message->to, ProbeAnswer{key, 0}}, now, outputs);
  }
}

void WorkerWithBug::handle(
    WorkerCore& core, WorkerInput input, Time now, std::vector<WorkerOutput>& outputs) {
  if (bug_ == PlantedBug::kNone) return core.handle(std::move(input), now, outputs);
  note(input);
  if (swallows(input)) return;
  const bool of_cancel = message_in<Cancel>(input) != nullptr;
  std::vector<WorkerOutput> right;
  core.handle(std::move(input), now, right);
  for (WorkerOutput& output : right) change(std::move(output), of_cancel, outputs);
}

void WorkerWithBug::note(const WorkerInput& input) {
  if (message_in<Generate>(input) != nullptr) routers_.insert(std::get<PeerMessage>(input).from);
  if (const auto* job = message_in<PrefillJob>(input)) decoders_[job->key] = job->reply_to;
  if (const auto* delivered = std::get_if<JobDelivered>(&input))
    decoders_[delivered->job.key] = delivered->job.reply_to;
}

bool WorkerWithBug::swallows(const WorkerInput& input) const {
  const auto* down = std::get_if<PeerDown>(&input);
  return bug_ == PlantedBug::kServesLostRouter && down != nullptr && routers_.count(down->peer) > 0;
}

void WorkerWithBug::change(WorkerOutput output, bool of_cancel, std::vector<WorkerOutput>& outputs) {
  const auto* freed = std::get_if<FreeReservation>(&output);
  const auto* fence = std::get_if<FenceReservation>(&output);
  if (freed != nullptr &&
      (freed_.count(freed->reservation) > 0 || (bug_ == PlantedBug::kForgetsMemory && of_cancel)))
    return;
  if (fence != nullptr && freed_.count(fence->reservation) > 0) return;
  if (bug_ == PlantedBug::kKeepsPins && std::holds_alternative<Unpin>(output)) return;
  if (const auto* quarantine = std::get_if<Quarantine>(&output);
      quarantine != nullptr && bug_ == PlantedBug::kFreesTooEarly) {
    freed_.insert(quarantine->reservation);
    outputs.emplace_back(FreeReservation{quarantine->reservation});
    return;
  }
  if (auto* message = std::get_if<SendMessage>(&output);
      message != nullptr && bug_ == PlantedBug::kAcceptsAnyClaim)
    if (auto* answer = std::get_if<ClaimAnswer>(&message->message)) answer->accepted = true;
  const auto* stop = std::get_if<FenceWrites>(&output);
  if (stop != nullptr && bug_ == PlantedBug::kSaysStoppedTooEarly) {
    const RequestKey key = stop->key;
    outputs.push_back(std::move(output));
    outputs.emplace_back(
        std::in_place_type<SendMessage>, SendMessage{decoders_.at(key), Message(WritesStopped{key})});
    return;
  }
  outputs.push_back(std::move(output));
}

}  // namespace cheetah::cluster::simulation
