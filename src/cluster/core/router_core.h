#pragma once
// The owner of the clients of one process: takes their requests, sends each to a decode worker, keeps what
// was forwarded of it, and sends it again elsewhere when the worker is lost. A central router is one of
// these; a worker with clients of its own (decode-centric ingress) embeds one whose `prefer` is the worker
// itself.
//
// What always holds: every accepted request ends with exactly one event with `done`, no later than its
// deadline and a grace; of each choice the client gets every token once and in order, whatever the workers
// say how often.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cluster/core/ports.h"
#include "cluster/core/routing.h"

namespace cheetah::cluster {

struct RouterConfig {
  WorkerId self{};                                     // this process
  bool prefer_self = false;                            // decode-centric ingress
  int max_migrations = 3;                              // without a new token from one failure to the next
  Duration heartbeat_limit = std::chrono::seconds(3);  // a worker silent for longer is lost
  Duration hold_off = std::chrono::seconds(5);         // a worker that failed gets nothing new for so long
  Duration probe_after = std::chrono::seconds(1);      // a request silent for longer is asked about
  int max_probes = 3;                                  // unanswered, then the worker has lost it
  Duration no_worker_wait = std::chrono::seconds(1);   // how long a request waits for somebody to take it,
  Duration resume_wait = std::chrono::seconds(10);     // and one that a worker has had: it is half answered
  Duration deadline_grace = std::chrono::milliseconds(500);
  std::optional<Duration> default_time_limit;  // of requests without a deadline
};

class RouterCore {
 public:
  // `routing` outlives the core.
  RouterCore(const RouterConfig& config, Routing& routing);
  ~RouterCore();
  RouterCore(const RouterCore&) = delete;
  RouterCore& operator=(const RouterCore&) = delete;

  void handle(RouterInput input, Time now, std::vector<RouterOutput>& outputs);
  Time next_wake() const;  // Time::max(): no need

  const KnownWorkers& workers() const;
  int64_t num_requests() const;
  // One line a request, for status and for the log of a failing simulation.
  std::string describe() const;
  void check_invariants() const;  // aborts where one is broken

  // Bugs put in on purpose, so that a test can show that the simulator finds them.
  struct PlantedBugs {
    bool no_dedup = false;    // forwards what comes, as often as it comes
    bool no_fencing = false;  // takes what a stale attempt says
    bool no_resume = false;   // forgets what it forwarded when a worker is lost
  };
  void plant(const PlantedBugs& bugs);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cheetah::cluster
