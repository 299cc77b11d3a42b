#pragma once
// What a router knows and does; router_core.h is its face. Private to core/.
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cluster/core/router_core.h"

namespace cheetah::cluster {

// One try at one worker.
struct Leg {
  Attempt attempt{};
  WorkerId worker{};
  Time sent{}, heard{}, probed{};
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
  int failures = 0;  // of workers that had it; a worker that drains does not count
  int vain = 0;      // of those, since its last token
  int hand_overs = 0;
  std::vector<Leg> legs;           // two while a race is on
  std::vector<ResumedChoice> got;  // what the client has
  std::optional<Time> first_token;
  bool prompt_logprobs_sent = false;
  std::optional<Time> waiting_since;  // for somebody to take it
  std::vector<WorkerId> lost;
  Placement placement;
  bool paused = false;
  bool admitted = false;
  bool shortened = false;   // its answer, by admission
  Time wake = Time::max();  // its place among the timers
};

struct RouterCore::State {
  using Request = PlacedRequest;

  State(const RouterConfig& settings, Routing& policy) : config(settings), routing(policy) {}

  // router_workers.cpp: who is there
  void on(PeerMessage& input);
  void on(const PeerUp& input);
  void on(const PeerDown& input);
  void on(const RegistrySnapshot& input);
  void on(const RegistryPut& input);
  void on(const RegistryGone& input);
  void on(const QueueDepth& input) { queue_depth = input.jobs; }
  void on(const Tick&) {}  // every input looks at the timers
  void on_message(WorkerId from, const Hello& message);
  void on_message(WorkerId from, const Heartbeat& message);
  void on_message(WorkerId from, const KvEvents& message) { routing.learn(from, message); }
  void describe_worker(const WorkerDescriptor& descriptor);
  void lose_worker(WorkerId worker, const char* why);
  void forget_if_gone(WorkerId worker);
  void look_for_silent_workers();

  // router_requests.cpp: from the client to a worker and, if need be, to another
  void on(ClientRequest& input);
  void on(const ClientCancel& input);
  void on(const ClientPause& input);
  RouteQuestion question(const Request& request) const;
  bool admit(Request& request);
  void turn_away(Request& request, const Admission& admission);
  void place(Request& request);
  void send(Request& request, WorkerId worker);
  // Each returns false when the request has ended by it.
  bool lose_leg(Request& request, Attempt attempt, bool failure, const std::string& why);
  void drop_legs(Request& request, std::optional<Attempt> but = {});
  void place_waiting();
  void end_unavailable(Request& request, const std::string& why);
  void end_with(Request& request, FinishReason finish, ErrorKind kind, const std::string& why);
  void finish(Request& request, GenerationEvent event, const Waterfall& waterfall, bool completed);
  void account(const Request& request, WorkerId worker, int sign);

  // router_events.cpp: from a worker to the client
  void on_message(WorkerId from, Tokens& message);
  void on_message(WorkerId from, const GaveUp& message);
  void on_message(WorkerId from, const ProbeAnswer& message);
  template <class Other>
  void on_message(WorkerId, const Other&) {}  // not for a router
  Leg* find_leg(WorkerId from, RequestKey key, Request** request);
  bool forward_in_turn(Request& request, Attempt attempt);
  bool forward(Request& request, const Leg& leg, Tokens& message);
  bool fits(const Request& request, const Tokens& message) const;

  // router_timers.cpp
  void schedule(Request& request);
  Duration patience(const Request& request) const;  // while nobody has it
  Time wake_of(const Request& request) const;
  void run_timers();
  void run_timer(Request& request);
  bool check_leg(Request& request, Leg& leg);

  // Built in place, out of line: gcc 12 takes a moved-from variant for an uninitialised one.
  void say(WorkerId to, Message message);
  void count(Counter counter);
  void log(RequestKey key, std::string what, std::string why);
  void emit(RequestUid uid, GenerationEvent event, std::optional<Emit::Summary> summary = {});

  RouterConfig config;
  Routing& routing;
  PlantedBugs planted;
  KnownWorkers workers;
  std::map<RequestUid, std::unique_ptr<Request>> requests;
  std::set<RequestUid> waiting;                  // without a worker
  std::set<std::pair<Time, RequestUid>> timers;  // of requests; one may come too early, none too late
  int64_t queue_depth = 0;
  // While an input is handled:
  Time now{};
  Time last_look{};
  std::vector<RouterOutput>* out = nullptr;
};

}  // namespace cheetah::cluster
