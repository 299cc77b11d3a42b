// SPDX-License-Identifier: MIT
#pragma once
// Where the time of a request went that a cluster answered, and which workers answered it. The cluster ties it
// to the request's last event as its tag.
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/request.h"

namespace cheetah {

// Some pages of a prompt on their way between two workers: times since the request reached the decoding worker.
struct SlabOnItsWay {
  int64_t first_token = 0, num_tokens = 0;
  std::chrono::microseconds posted{}, landed{}, imported{};
};

struct ClusterTimes {
  std::chrono::microseconds queued{};    // for space, a prefill worker, the engine
  std::chrono::microseconds prefill{};   // on either worker
  std::chrono::microseconds transfer{};  // of pages, as far as the prefill did not hide it
  std::chrono::microseconds decode{};    // from the first token on
  int64_t remote_tokens = 0;             // of the prompt, computed by the prefill worker
  int64_t attempts = 0;
  std::string prefill_worker{}, decode_worker{};  // "": none
  std::string worker_reason{}, prefill_reason{};  // why these workers were chosen
  std::string fallback{};                         // why the prefill worker computed nothing; "": it did
  std::string degraded{};  // what the request got less of: "model", "output"; "": nothing
  std::optional<std::chrono::microseconds> retry_after{};  // of a refusal
  std::string refusal{};                                   // name of its reason
  std::string other_model{};  // nothing was done: make the request again for the model of this name
  std::chrono::microseconds computed{};  // since the request came, by the prefill worker
  int64_t slabs_hidden = 0;              // posted while the prompt was still being computed
  std::vector<SlabOnItsWay> slabs{};
};
using SharedClusterTimes = std::shared_ptr<const ClusterTimes>;  // shared by the copies of an event

// nullptr where one engine answered, and for every event but the last.
inline SharedClusterTimes cluster_times_of(const GenerationEvent& event) {
  const auto* times = std::any_cast<SharedClusterTimes>(&event.tag);
  return times ? *times : nullptr;
}

}  // namespace cheetah
