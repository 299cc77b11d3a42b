// SPDX-License-Identifier: MIT
#include "cluster/node/fault_places.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/format.h"
#include "base/names.h"

namespace cheetah::cluster {
namespace {

constexpr auto kOutputs = kAlternativeNames<WorkerOutput>;
constexpr auto kInputs = kAlternativeNames<WorkerInput>;
constexpr std::array<std::string_view, 3> kOwn = {"client.request", "client.event", "transfer.midway"};
constexpr std::array<std::string_view, 6> kCanFail = {
    "EngineSubmit", "ReserveSpace", "ImportSlab", "PushJob", "StartExport", "PostSlab"};
// The queue may lose and double them; whatever else is promised an answer gets it once.
constexpr std::array<std::string_view, 3> kCanBeLost = {"PushJob", "AckJob", "ExtendJob"};

template <class List>
bool holds(const List& list, std::string_view name) {
  return std::ranges::find(list, name) != list.end();
}

template <size_t... kIndex>
bool is_message(std::string_view name, std::index_sequence<kIndex...>) {
  return ((message_name(Message(std::in_place_index<kIndex>)) == name) || ...);
}

bool at_any_place(FaultAction action) {
  return action == FaultAction::kKill || action == FaultAction::kStop || action == FaultAction::kStall;
}
bool on_the_way(FaultAction action) { return action == FaultAction::kDrop || action == FaultAction::kDouble; }

// Outputs the node does itself and inputs that have places of their own are none.
bool is_output(std::string_view name) {
  return holds(kOutputs, name) && name != "SendMessage" && name != "Count" && name != "LogDecision";
}
bool is_input(std::string_view name) { return holds(kInputs, name) && name != "PeerMessage"; }

bool knows(std::string_view kind, std::string_view name, FaultAction action) {
  if (at_any_place(action)) return true;
  if (kind == "send" || kind == "receive") return on_the_way(action);
  if (kind == "told") return name == "JobDelivered" && on_the_way(action);
  if (kind != "do") return false;
  return action == FaultAction::kFail ? holds(kCanFail, name) : on_the_way(action) && holds(kCanBeLost, name);
}

}  // namespace

std::string_view output_name(const WorkerOutput& output) { return kOutputs[output.index()]; }
std::string_view input_name(const WorkerInput& input) { return kInputs[input.index()]; }

std::optional<WorkerInput> failure_of(const WorkerOutput& output) {
  const std::string why = "a failpoint says so";
  if (const auto* submit = std::get_if<EngineSubmit>(&output)) {
    EngineEvent ended{.key = submit->key, .event = {}};
    ended.event.finish = FinishReason::kError;
    ended.event.error = why;
    ended.event.error_kind = ErrorKind::kInternal;
    ended.event.done = true;
    return ended;
  }
  if (const auto* reserve = std::get_if<ReserveSpace>(&output)) return SpaceReserved{.key = reserve->key};
  if (const auto* import = std::get_if<ImportSlab>(&output))
    return SlabImported{import->key, import->reservation, import->slab.index, false, why};
  if (const auto* push = std::get_if<PushJob>(&output))
    return PeerMessage{WorkerId{}, PrefillFailed{push->job.key, push->job.reservation, why}};
  if (const auto* start = std::get_if<StartExport>(&output))
    return ExportProgress{.key = start->key, .failed = true, .why = why};
  if (const auto* post = std::get_if<PostSlab>(&output))
    return SlabSent{.key = post->key, .index = post->index, .why = why};
  return std::nullopt;
}

std::string why_no_place(std::string_view place, FaultAction action) {
  const size_t dot = std::min(place.find('.'), place.size());
  const std::string_view kind = place.substr(0, dot), name = place.substr(std::min(dot + 1, place.size()));
  const bool message = (kind == "send" || kind == "receive") &&
                       is_message(name, std::make_index_sequence<std::variant_size_v<Message>>());
  const bool exists = holds(kOwn, place) || message || (kind == "do" && is_output(name)) ||
                      (kind == "told" && is_input(name));
  if (!exists)
    return "a place: send.MESSAGE, receive.MESSAGE, do.OUTPUT, told.INPUT, client.request, client.event or "
           "transfer.midway";
  if (!knows(kind, name, action)) return format("another action: {} cannot {}", place, name_of(action));
  return "";
}

}  // namespace cheetah::cluster
