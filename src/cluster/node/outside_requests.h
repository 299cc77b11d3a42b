// SPDX-License-Identifier: MIT
#pragma once
// Requests that a gateway sends to workers itself: this node says to which, by the same policies and in the same books
// as for its own clients. Belongs to the node's thread.
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cluster/core/routing.h"

namespace cheetah::cluster {

struct PlaceQuestion {
  GenerationRequest request;  // an empty prompt: somebody has to answer, and it counts nowhere
  std::string objective;      // a class of service, where there is one of that name
  std::optional<std::vector<std::string>> hosts;  // of the workers that may be chosen; nullopt: all
};
struct PlaceAnswer {
  std::vector<std::string> hosts;  // the best first, then others that could; empty: refused
  RequestUid uid{};                // for ended(); 0: nothing is counted
  bool no_worker = false;          // refused: nobody there can answer, whatever the load
  std::string refusal, why;
  Microseconds retry_after{};
};
struct PlacedEnd {
  RequestUid uid{};
  bool completed = false;
  Microseconds first_token{}, total{};
};

class OutsideRequests {
 public:
  OutsideRequests(Routing& routing, WorkerId self) : routing_(routing), self_(self) {}

  // `client`: all of the request but its uid.
  PlaceAnswer place(ClientRequest client, const std::optional<std::vector<std::string>>& hosts,
      const KnownWorkers& workers, int64_t queue_depth, Time now);
  void ended(const PlacedEnd& end, Time now);
  int64_t count() const { return static_cast<int64_t>(placed_.size()); }

 private:
  struct Placed {
    ClientRequest client;
    WorkerId worker{};
    int64_t effective_tokens = 0;
  };
  Routing& routing_;
  const WorkerId self_;
  uint64_t next_ = uint64_t{1} << 63;  // far from the numbers of the node's own clients
  std::map<RequestUid, Placed> placed_;
};

}  // namespace cheetah::cluster
