// SPDX-License-Identifier: MIT
#pragma once
// The requests of a router's clients, from admission to the last token, at one worker after another.
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cluster/core/router_config.h"
#include "cluster/core/router_step.h"
#include "cluster/core/router_workers.h"
#include "cluster/core/routing.h"

namespace cheetah::cluster {

// One try at one worker.
struct RunningAttempt {
  Attempt attempt{};
  WorkerId worker{};
  Time sent{}, heard{}, probed{};
  bool taken = false;                  // the worker has said something about it, so it had it
  int probes = 0;                      // unanswered
  uint64_t next_sequence = 0;          // of the messages of this attempt, the next to forward
  std::map<uint64_t, Tokens> early{};  // came before their turn
  Time early_since{};
  std::optional<uint64_t> missing{};  // a probe said that this one was sent
};

struct PlacedRequest {
  ClientRequest client;
  Time arrived{};
  std::optional<Time> deadline;
  uint32_t attempts = 0;
  int failures = 0;       // of workers that had it; a worker that drains does not count
  int vain = 0;           // of those, since its last token
  int unlucky = 0;        // in a row, of workers that were lost before they said that they had it
  bool given_up = false;  // too many workers failed with it
  Time place_after{};     // backs off where worker after worker turns out to be lost
  int hand_overs = 0;
  std::vector<RunningAttempt> running;  // two while a race is on
  std::vector<ResumedChoice> got;       // what the client has
  std::optional<Time> first_token;
  bool prompt_logprobs_sent = false;
  std::optional<Time> waiting_since;  // for a worker
  std::vector<WorkerId> lost;
  Placement placement;
  std::optional<Admission> refusal;  // by admission: nothing was done for it
  bool paused = false;
  bool admitted = false;
  bool shortened = false;   // its answer, by admission
  Time wake = Time::max();  // its place among the timers
  // Of one whose client has come back (routed_recalls.cpp):
  bool recalling = false;             // workers are asked what they said of it; not placed meanwhile
  std::set<WorkerId> asked, silent;   // and of those, who has not answered
  std::optional<Time> recall_until;   // since the first was asked
  std::optional<WorkerId> remembers;  // the worker that knew it, whose cache has its pages
  std::vector<std::vector<int32_t>>
      known;  // of each choice, tokens that are its beginning, whether sent or not
};

enum class Loss : uint8_t {
  kFailed,      // the worker failed with the request
  kHandedOver,  // the worker does not want it: no failure
  kWorkerGone,  // the worker's link is down, or it is silent
};

class RoutedRequests {
 public:
  using Request = PlacedRequest;

  RoutedRequests(const RouterConfig& config, Routing& routing, RouterWorkers& workers)
      : config_(config), routing_(routing), workers_(workers) {}

  // routed_requests.cpp: from the client to a worker and, if need be, to another
  void add(ClientRequest& input, RouterStep& step);
  void cancel(RequestUid uid, RouterStep& step);
  void pause(const ClientPause& input, RouterStep& step);
  void queue_is(int64_t depth) { queue_depth_ = depth; }
  void worker_lost(WorkerId id, const std::string& why, RouterStep& step);
  void place_waiting(RouterStep& step);
  void stood_still(Time now) { settled_at_ = now + config_.settle; }

  // routed_tokens.cpp: from a worker to the client
  void hear(WorkerId from, Tokens& message, RouterStep& step);
  void hear(WorkerId from, const GaveUp& message, RouterStep& step);
  void hear(WorkerId from, const ProbeAnswer& message, RouterStep& step);

  // routed_recalls.cpp: what is left of a request of another router
  void hear(WorkerId from, Recalled& message, RouterStep& step);

  // routed_timers.cpp: every wait of a request has an end
  void run_timers(RouterStep& step);
  Time next_wake() const { return timers_.empty() ? Time::max() : timers_.begin()->first; }

  int64_t size() const { return static_cast<int64_t>(requests_.size()); }
  std::string describe() const;
  void check_invariants() const;

 private:
  RouteQuestion question(const Request& request, Time now) const;
  void ask_around(Request& request, RouterStep& step);
  void end_recall(Request& request, RouterStep& step);
  bool admit(Request& request, RouterStep& step);
  void turn_away(Request& request, const Admission& admission, RouterStep& step);
  void place(Request& request, RouterStep& step);
  void send(Request& request, WorkerId worker, RouterStep& step);
  // Each returns false when the request has ended by it.
  bool lose_attempt(Request& request, Attempt attempt, Loss loss, const std::string& why, RouterStep& step);
  void drop_attempts(Request& request, std::optional<Attempt> but, RouterStep& step);
  void end_unavailable(Request& request, const std::string& why, RouterStep& step);
  void end_with(
      Request& request, FinishReason finish, ErrorKind kind, const std::string& why, RouterStep& step);
  void finish(
      Request& request, GenerationEvent event, const Waterfall& waterfall, bool completed, RouterStep& step);
  void observe(const Request& request, const Emit::Summary& summary, bool completed, Time now);

  struct Found {
    Request* request = nullptr;
    RunningAttempt* run = nullptr;
  };
  Found find_attempt(WorkerId from, RequestKey key);
  bool forward_in_turn(Request& request, Attempt attempt, RouterStep& step);
  bool forward(Request& request, const RunningAttempt& run, Tokens& message, RouterStep& step);
  static bool fits(const Request& request, const Tokens& message);

  void schedule(Request& request, Time now);
  Duration patience(const Request& request) const;  // while no worker has it
  Time wake_of(const Request& request, Time now) const;
  Time may_place_at(const Request& request) const { return std::max(request.place_after, settled_at_); }
  void run_timer(Request& request, RouterStep& step);
  bool check_attempt(Request& request, RunningAttempt& run, RouterStep& step);

  const RouterConfig& config_;
  Routing& routing_;
  RouterWorkers& workers_;
  std::map<RequestUid, std::unique_ptr<Request>> requests_;
  std::set<RequestUid> waiting_;                  // without a worker
  std::set<std::pair<Time, RequestUid>> timers_;  // of requests; one may come too early, none too late
  int64_t queue_depth_ = 0;
  std::optional<Time> began_;  // this router
  Time settled_at_{};          // when the news of all links are in, after this process stood still
};

// routed_recalls.cpp: the worker that has said the beginning, if it is to be had, and what the one that goes on with
// the request has to know of it.
std::optional<Placement> where_remembered(
    const PlacedRequest& request, const KnownWorkers& workers, Time now);
void add_resume(
    const PlacedRequest& request, const KnownWorkers& workers, WorkerId worker, Generate& generate);

}  // namespace cheetah::cluster
