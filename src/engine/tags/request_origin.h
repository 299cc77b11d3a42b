// SPDX-License-Identifier: MIT
#pragma once
// Where a request came from, for a backend that places requests on several workers. The server ties it to the
// request as its tag.
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/request.h"

namespace cheetah {

struct RequestOrigin {
  std::string tenant{};
  std::string call{};   // the server's id of the call it belongs to
  std::string trace{};  // W3C traceparent of the call's span
  std::string model{};  // the served name of the model that tokenized it; "": the only one
  // The submitter can make the request again for another model (ClusterTimes::other_model).
  bool may_change_model = false;
  std::string degraded_from{};  // the model that was asked for, where another one answers
  bool may_come_back = false;   // the client can ask for the rest of the answer where it was cut
  // It has: of each choice, how many of its tokens need not be generated again, where somebody still knows them.
  std::optional<std::vector<int64_t>> has{};
  std::vector<std::pair<std::string, std::string>> headers{};  // HTTP headers the server was told to pass on
};

// An empty one for a request that no server made.
inline const RequestOrigin& origin_of(const GenerationRequest& request) {
  static const RequestOrigin kNone;
  const auto* origin = std::any_cast<RequestOrigin>(&request.tag);
  return origin ? *origin : kNone;
}

}  // namespace cheetah
