// SPDX-License-Identifier: MIT
#pragma once
// A worker reports its load a few times per second. What it was sent and what it ended since then is known here
// and brings the report up to date.
#include <cstdint>
#include <deque>
#include <map>
#include <unordered_map>

#include "cluster/policy/view.h"

namespace cheetah::cluster {

class SinceReport {
 public:
  // A request that moves is sent again, to another worker.
  void sent(WorkerId worker, const RouteRequest& request, Time now);
  void ended(RequestUid uid, Time now);
  void forget(WorkerId worker);

  // `reported` is when the load that the view has came.
  void bring_up_to_date(WorkerView& worker, Time reported);

 private:
  struct Sent {
    RequestUid uid{};
    Time at{};
    int64_t choices = 0, tokens = 0;
  };
  struct Ended {
    Time sent{}, at{};
  };
  struct News {
    std::deque<Sent> sent;
    std::deque<Ended> ended;
  };
  struct Place {
    WorkerId worker{};
    Time at{};
  };
  std::map<WorkerId, News> news_;
  std::unordered_map<RequestUid, Place> places_;  // of every request that has not ended
};

}  // namespace cheetah::cluster
