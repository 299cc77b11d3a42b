// SPDX-License-Identifier: MIT
#pragma once
#include <optional>

#include "cluster/types.h"

namespace cheetah::cluster {

struct RouterConfig {
  WorkerId self{};           // this process
  bool prefer_self = false;  // decode-centric ingress
  int max_migrations = 3;    // without a new token from one failure to the next
  // After this process stood still, nothing is placed for so long: the news of broken links come first.
  Duration settle = std::chrono::milliseconds(100);
  Duration heartbeat_limit = std::chrono::seconds(3);  // a worker silent for longer is lost
  Duration hold_off = std::chrono::seconds(5);         // a worker that failed gets nothing new for so long
  Duration probe_after = std::chrono::seconds(1);      // a request silent for longer is asked about
  int max_probes = 3;                                  // unanswered, then the worker has lost it
  Duration no_worker_wait = std::chrono::seconds(1);   // how long a request waits for a worker,
  Duration resume_wait = std::chrono::seconds(10);     // and one that a worker has had: it is half answered
  Duration recall_wait = std::chrono::milliseconds(300);  // for workers to say what they said of a request
  Duration deadline_grace = std::chrono::milliseconds(500);
  std::optional<Duration> default_time_limit;  // of requests without a deadline
};

}  // namespace cheetah::cluster
