// SPDX-License-Identifier: MIT
#pragma once
// The way of each request through the cluster, as its router saw it: of those that run and of the last that
// ended. What was decided and when, and at the end where the workers say that the time went. No text of
// anybody. Written by the node's thread; traces are asked for there too.
#include <chrono>
#include <deque>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/json.h"
#include "cluster/core/router_ports.h"
#include "engine/tags/cluster_times.h"

namespace cheetah::cluster {

class RequestTraces {
 public:
  static constexpr size_t kKept = 1000;  // that ended
  static constexpr size_t kMostSteps = 64;

  // `call`: the server's id of the call; one call may have several requests.
  void begin(RequestUid uid, std::string call, const ClientRequest& client, Time now);
  void step(RequestUid uid, std::string what, std::string why, Time now);
  void tokens(RequestUid uid, int64_t count, Time now);
  void end(RequestUid uid, const GenerationEvent& event, const ClusterTimes& times, Time now);

  // All requests of the call, by its id, by the id in its answer (chatcmpl-ID), or of one request by its own
  // (16 hex digits); empty: none is known.
  Json find(std::string_view id, Time now) const;
  size_t num_ended() const { return ended_.size(); }

 private:
  struct Step {
    Time at{};
    std::string what, why;
  };
  struct Trace {
    RequestUid uid{};
    std::string call, tenant, qos_class;
    int64_t prompt_tokens = 0, max_tokens = 0;
    std::chrono::system_clock::time_point arrived_at;
    Time arrived{}, first_token{}, ended{};
    std::vector<Step> steps;
    std::string finish, error;
    int64_t generated = 0;
    std::optional<ClusterTimes> times;
  };
  static Json json_of(const Trace& trace, Time now);

  std::unordered_map<RequestUid, Trace> running_;
  std::deque<Trace> ended_;
};

}  // namespace cheetah::cluster
