// SPDX-License-Identifier: MIT
#pragma once
// Pages of a prompt from another worker: asked for, received, imported into the prefix cache. Whatever goes
// wrong, the request becomes ready with what has arrived. Receive memory is given back when no writer can
// reach it any more, not before.
#include <map>
#include <optional>
#include <string>

#include "cluster/core/serving.h"
#include "cluster/core/timers.h"
#include "cluster/core/worker_peers.h"
#include "cluster/core/worker_step.h"

namespace cheetah::cluster {

// A stretch of receive memory. It outlives its request until no writer can reach it any more.
struct ReceiveMemory {
  RequestKey owner;
  WorkerId writer{};       // 0: no worker was allowed to write
  bool stopped = false;    // the writer has written for the last time
  bool importing = false;  // we read it
  bool abandoned = false;  // no request waits for it
  bool fencing = false;

  bool quiet() const { return writer == WorkerId{} || stopped; }
};

class PageReceiver {
 public:
  // `servings` are the worker's; this machine takes them from kReceived to kReady.
  PageReceiver(const WorkerConfig& config, const WorkerPeers& peers, Servings& servings)
      : config_(config), self_(config.descriptor), peers_(peers), servings_(servings) {}

  bool may_start(const Generate& message, Time now) const;
  bool may_fetch(const Generate& message, const FetchFrom& fetch) const;
  void start(Serving& serving, WorkerStep& step);
  // The request no longer needs its memory: a writer that may still be at it is told to stop, and until it
  // says so the memory is in quarantine.
  void abandon(Serving& serving, WorkerStep& step);
  void forget(RequestKey key) { waits_.clear(key); }

  void queue_is(bool up) { queue_up_ = up; }
  void peer_lost(WorkerId peer, WorkerStep& step);
  void on(const CacheLooked& input, WorkerStep& step);
  void on(const SpaceReserved& input, WorkerStep& step);
  void on(const SlabImported& input, WorkerStep& step);
  void on(const ReservationFenced& input, WorkerStep& step);
  void hear(WorkerId from, const Claimed& message, WorkerStep& step);
  void hear(WorkerId from, const SlabPosted& message, WorkerStep& step);
  void hear(WorkerId from, const PrefillDone& message, WorkerStep& step);
  void hear(WorkerId from, const PrefillFailed& message, WorkerStep& step);
  void hear(WorkerId from, const WritesStopped& message, WorkerStep& step);
  void hear(WorkerId from, const PrefillNews& message, WorkerStep& step);
  void run_waits(WorkerStep& step);
  void run_fences(WorkerStep& step);

  Time next_wake() const { return std::min(waits_.next(), fences_.next()); }
  int64_t num_reservations() const { return static_cast<int64_t>(memory_.size()); }
  int64_t num_abandoned() const;
  bool queue_up() const { return queue_up_; }
  std::string describe() const;
  void check_invariants() const;

 private:
  Serving* waiting_for(WorkerId writer, RequestKey key, ReservationId reservation);
  void ask_for_space(const Serving& serving, WorkerStep& step) const;
  void dispatch(Serving& serving, const std::string& memory, WorkerStep& step);
  bool accept_claim(WorkerId from, const Claimed& message, Serving& serving, WorkerStep& step);
  void wait_for_more(Serving& serving, Time now);
  void import_next(Serving& serving, WorkerStep& step);
  void all_imported(Serving& serving, WorkerStep& step);
  void ready(Serving& serving, WorkerStep& step);
  void fall_back(Serving& serving, const std::string& why, WorkerStep& step);
  void remote_failed(WorkerStep& step);
  void settle(ReservationId id, WorkerStep& step);
  void fence(ReservationId id, WorkerStep& step);

  const WorkerConfig& config_;
  const WorkerDescriptor& self_;  // of it only what never changes: id and pages
  const WorkerPeers& peers_;
  Servings& servings_;
  std::map<ReservationId, ReceiveMemory> memory_;
  Timers<RequestKey> waits_;
  Timers<ReservationId> fences_;
  bool queue_up_ = false;
  int remote_failures_ = 0;  // in a row
  Time breaker_until_{};
};

}  // namespace cheetah::cluster
