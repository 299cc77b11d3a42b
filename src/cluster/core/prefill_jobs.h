// SPDX-License-Identifier: MIT
#pragma once
// Pages for others: a job is claimed, computed, and its pages are written to the decode worker slab by slab
// while the next are computed. A job may come twice, late or never; the decode worker's answer to the claim
// decides.
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cluster/core/timers.h"
#include "cluster/core/worker_config.h"
#include "cluster/core/worker_peers.h"
#include "cluster/core/worker_roles.h"
#include "cluster/core/worker_step.h"

namespace cheetah::cluster {

// A prompt this worker computes for another.
struct PrefillWork {
  enum class Stage : uint8_t { kClaiming, kRunning, kStopping };
  PrefillJob job;
  std::optional<DeliveryId> delivery;  // none: it came straight from the decode worker
  Stage stage = Stage::kClaiming;
  Time received{}, deadline{}, next_extend{}, next_news{}, claim_until{}, started{};
  int64_t tokens_ready = 0;
  int64_t end_token = 0;  // how far our own whole pages reach
  struct Slab {
    Time posted{}, sent{};
  };
  std::vector<Slab> slabs;
  uint32_t num_answered = 0, num_hidden = 0;  // hidden: posted before all was computed
  std::optional<Time> computed;               // all of it
  bool only_cached = false;                   // a fetch: nothing is computed for it
  bool exporting = false;                     // the engine holds pages for it
  std::optional<Message> last_word;           // for the decode worker, when writing has stopped
};

class PrefillJobs {
 public:
  PrefillJobs(const WorkerConfig& config, const WorkerPeers& peers, const WorkerRoles& roles)
      : config_(config), self_(config.descriptor), peers_(peers), roles_(roles) {}

  void on(JobDelivered& input, WorkerStep& step);
  void on(const ExportProgress& input, WorkerStep& step);
  void on(const SlabSent& input, WorkerStep& step);
  void on(const WritesFenced& input, WorkerStep& step);
  void hear(WorkerId from, PrefillJob& message, WorkerStep& step);
  void hear(WorkerId from, FetchJob& message, WorkerStep& step);
  void hear(WorkerId from, const ClaimAnswer& message, WorkerStep& step);
  // False: the job is not known. Its decode worker hears when the writing has stopped.
  bool cancel(WorkerId from, RequestKey key, WorkerStep& step);
  void peer_lost(WorkerId peer, WorkerStep& step);
  void hand_over(WorkerStep& step);
  void run_timers(WorkerStep& step);

  int wanted() const;  // how many more it may take now
  Time next_wake() const { return timers_.next(); }
  int64_t size() const { return static_cast<int64_t>(jobs_.size()); }
  int64_t num_exports() const;
  std::string describe() const;
  void check_invariants() const;

 private:
  void take(PrefillJob job, std::optional<DeliveryId> delivery, WorkerStep& step, bool only_cached = false);
  void refuse(const PrefillJob& job, std::optional<DeliveryId> delivery, const std::string& why,
      WorkerStep& step) const;
  void start(PrefillWork& work, WorkerStep& step);
  void post_slabs(PrefillWork& work, int64_t tokens_ready, WorkerStep& step) const;
  void finish_if_done(RequestKey key, WorkerStep& step);
  void stop(RequestKey key, std::optional<Message> last_word, WorkerStep& step);
  void end(RequestKey key, WorkerStep& step);
  void look_at(RequestKey key, WorkerStep& step);
  void schedule(const PrefillWork& work);
  int64_t reach(const PrefillJob& job) const;
  bool full() const { return size() >= config_.max_jobs; }

  const WorkerConfig& config_;
  const WorkerDescriptor& self_;  // of it only what never changes: id and pages
  const WorkerPeers& peers_;
  const WorkerRoles& roles_;
  std::map<RequestKey, std::unique_ptr<PrefillWork>> jobs_;
  Timers<RequestKey> timers_;
};

}  // namespace cheetah::cluster
