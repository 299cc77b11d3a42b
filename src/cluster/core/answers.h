// SPDX-License-Identifier: MIT
#pragma once
// Requests of routers: taken, submitted to the engine when their prompt is ready, their tokens sent back.
#include <map>
#include <string>
#include <vector>

#include "cluster/core/page_receiver.h"
#include "cluster/core/serving.h"
#include "cluster/core/timers.h"
#include "cluster/core/worker_peers.h"
#include "cluster/core/worker_roles.h"
#include "cluster/core/worker_step.h"

namespace cheetah::cluster {

class Answers {
 public:
  struct Parts {
    const WorkerConfig& config;
    const WorkerPeers& peers;
    const WorkerRoles& roles;
    PageReceiver& pages;
    EndedRequests& ended;
    Servings& servings;
  };
  explicit Answers(const Parts& parts)
      : parts_(parts), remembered_(parts.config.remember, parts.config.remember_tokens) {}

  void hear(WorkerId from, Generate& message, WorkerStep& step);
  void hear(const FetchFrom& message);
  // False: the request is not known.
  bool cancel(WorkerId from, RequestKey key, WorkerStep& step);
  void hear(WorkerId from, const Pause& message, WorkerStep& step);
  void hear(WorkerId from, const Probe& message, WorkerStep& step) const;
  void hear(WorkerId from, const Recall& message, WorkerStep& step) const;
  void on(EngineEvent& input, WorkerStep& step);
  // A router that does not keep up gets no more from its requests until it has: its link would be cut.
  void pressure_changed(WorkerId router, WorkerStep& step);
  void peer_lost(WorkerId peer, WorkerStep& step);
  // The time to drain is up: the requests go on elsewhere, their routers have what was said so far.
  void hand_over(WorkerStep& step);
  void submit_ready(WorkerStep& step);
  void run_timers(WorkerStep& step);

  Time next_wake() const { return deadlines_.next(); }
  std::string describe() const;
  void check_invariants() const;

 private:
  bool takes(WorkerId from, const Generate& message, WorkerStep& step);
  Serving& add(WorkerId from, Generate& message, Time now);
  void submit(Serving& serving, WorkerStep& step);
  void pause_or_go_on(Serving& serving, WorkerStep& step) const;
  void send(Serving& serving, GenerationEvent& event, WorkerStep& step) const;
  static void close_waterfall(Serving& serving, const GenerationEvent& event, Time now);
  void stop(RequestKey key, WorkerStep& step);
  void forget(RequestKey key, WorkerStep& step);

  Parts parts_;
  std::map<RequestKey, FetchFrom> fetches_;  // whose Generate comes next
  Timers<RequestKey> deadlines_;
  RememberedAnswers remembered_;
};

}  // namespace cheetah::cluster
