// SPDX-License-Identifier: MIT
#pragma once
#include <optional>

#include "cluster/types.h"

namespace cheetah::cluster {

enum class RequestState : uint8_t {
  kReceived,      // looks at its own cache
  kWaitSpace,     // for receive memory
  kQueuedRemote,  // a job is on the queue
  kPrefilling,    // a prefill worker has it
  kTransferring,  // pages come in
  kReady,         // the engine has it
  kDecoding,      // tokens come out
  kDone,
};
const char* state_name(RequestState state);

struct WorkerConfig {
  WorkerDescriptor descriptor;       // its id, role and pages
  std::optional<KvDescriptor> wire;  // as what pages shall come; nullopt: as it keeps them
  int64_t slab_tokens = 128;         // at least so many in one transfer
  int64_t min_remote_tokens = 64;    // fewer are computed here whatever the router says
  int max_jobs = 2;                  // prefill jobs at once
  int max_reservations = 16;         // requests that wait for pages at once
  Duration space_wait = std::chrono::milliseconds(200);
  Duration claim_wait = std::chrono::seconds(2);       // a job not claimed in this time is computed here
  Duration stall_limit = std::chrono::seconds(3);      // a claimed job without news for so long is given up
  Duration news_every = std::chrono::seconds(1);       // from its prefill worker, while it computes
  Duration progress_limit = std::chrono::seconds(20);  // and so long only if some of it was computed
  Duration prefill_limit = std::chrono::minutes(10);   // and whatever its news one that takes longer
  Duration claim_answer_wait = std::chrono::seconds(1);
  Duration extend_every = std::chrono::seconds(5);  // less than half of the queue's visibility time
  Duration fence_after = std::chrono::seconds(1);   // a writer that does not say it stopped is fenced off
  Duration deadline_grace =
      std::chrono::seconds(1);                   // the engine ends a request at its deadline; this, later
  Duration remember = std::chrono::seconds(60);  // keys of requests that ended
  int64_t remember_tokens = int64_t{4} << 20;    // that were said of them, for clients that come back
  int breaker_failures = 3;                      // remote prefills in a row that failed, then local for
  Duration breaker_open = std::chrono::seconds(5);
  Duration drain_limit = std::chrono::seconds(30);
  Duration min_dwell = std::chrono::seconds(30);  // in a role
};

}  // namespace cheetah::cluster
