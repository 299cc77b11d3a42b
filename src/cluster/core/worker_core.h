#pragma once
// One worker: the decode side answers requests of routers, the prefill side computes pages for other workers.
// Any worker has both; its role says which work it takes. The pages of a prompt that was computed elsewhere
// go into the prefix cache, and then the request is submitted like any other: whatever is lost, late, damaged
// or refused only means that the prompt is computed here.
//
// What always holds: a reservation is freed only when nobody can write to it any more; every wait has an end;
// of a request that ended, nothing is left but its key, remembered for a while so that a late message cannot
// start it again.
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cluster/core/ports.h"

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
  Duration claim_wait = std::chrono::seconds(2);       // a job nobody claims in this time is computed here
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
  int breaker_failures = 3;                      // remote prefills in a row that failed, then local for
  Duration breaker_open = std::chrono::seconds(5);
  Duration drain_limit = std::chrono::seconds(30);
  Duration min_dwell = std::chrono::seconds(30);  // in a role
};

class WorkerCore {
 public:
  explicit WorkerCore(const WorkerConfig& config);
  ~WorkerCore();
  WorkerCore(const WorkerCore&) = delete;
  WorkerCore& operator=(const WorkerCore&) = delete;

  void handle(WorkerInput input, Time now, std::vector<WorkerOutput>& outputs);
  Time next_wake() const;
  int jobs_wanted() const;  // how many more the edge may pull from the queue now

  const WorkerDescriptor& descriptor() const;
  int64_t num_peers() const;  // known, linked or not
  struct Books {              // all zero when nothing is going on
    int64_t requests = 0, jobs = 0, reservations = 0, quarantined = 0, exports = 0;
  };
  Books books() const;
  std::string describe() const;
  void check_invariants() const;

  struct PlantedBugs {
    bool free_instead_of_quarantine = false;
    bool accept_any_claim = false;    // of stale attempts too
    bool forget_reservation = false;  // when a request is cancelled
    bool ignore_lost_router = false;
    bool keep_pins = false;
    bool say_stopped_too_early = false;  // while pages are still on their way
  };
  void plant(const PlantedBugs& bugs);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cheetah::cluster
