// SPDX-License-Identifier: MIT
#pragma once
// The last decisions of the router, for `cluster status`, the log and tests.
#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "cluster/policy/admission.h"
#include "cluster/policy/route.h"

namespace cheetah::cluster {

struct RoutedRequest {
  double time_s = 0;  // since the router started
  RequestKey key = {};
  std::string qos_class = {};
  int64_t prompt_tokens = 0;
  RouteDecision decision = {};
};

struct RefusedRequest {
  double time_s = 0;
  RequestKey key = {};
  std::string qos_class = {};
  int64_t prompt_tokens = 0;
  AdmissionDecision decision = {};
};

std::string line_of(const RoutedRequest& routed);  // one line, for a log
std::string line_of(const RefusedRequest& refused);
Json json_of(const RoutedRequest& routed);
Json json_of(const RefusedRequest& refused);

// Oldest overwritten first. One thread.
class DecisionRing {
 public:
  explicit DecisionRing(size_t capacity = 1024) : ring_(capacity) {}
  void add(RoutedRequest routed) { ring_[count_++ % ring_.size()] = std::move(routed); }
  uint64_t count() const { return count_; }
  std::vector<RoutedRequest> last(int64_t num_decisions) const;  // oldest first

 private:
  std::vector<RoutedRequest> ring_ = {};
  uint64_t count_ = 0;
};

}  // namespace cheetah::cluster
