// SPDX-License-Identifier: MIT
#include "cluster/core/ports.h"

#include <array>

#include "base/hash.h"

namespace cheetah::cluster {

const char* counter_name(Counter counter) {
  static constexpr std::array<const char*, static_cast<size_t>(Counter::kCount)> kNames = {"requests",
      "requests_rejected", "requests_degraded", "requests_other_model", "migrations", "migration_limit",
      "workers_lost", "stale_dropped", "duplicates_dropped", "probes", "races", "races_won_by_second",
      "unavailable", "deadlines", "remote_prefills", "local_prefills", "fallbacks", "no_space",
      "breaker_opened", "jobs_pushed", "jobs_direct", "jobs_claimed", "jobs_refused", "slabs_imported",
      "slabs_refused", "quarantined", "orphans_cancelled", "handed_over", "flips", "flips_refused", "resumed",
      "resumed_anew", "prefix_fetches", "prefix_fetches_failed"};
  return kNames[static_cast<size_t>(counter)];
}

const char* counter_help(Counter counter) {
  static constexpr std::array<const char*, static_cast<size_t>(Counter::kCount)> kHelp = {
      "Requests that clients sent to this router", "Requests refused by admission",
      "Requests answered with less than they asked for",
      "Requests answered by another model than they asked for",
      "Requests that went on at another worker after theirs was lost",
      "Requests that failed because they had moved as often as they may", "Workers that were lost",
      "Messages of attempts that were over, dropped", "Messages that came twice, dropped",
      "Probes sent to workers whose breaker is open",
      "Requests that were sent to a second worker because the first was slow",
      "… of which the second worker answered first", "Requests refused because no worker could take them",
      "Requests that ended at their deadline", "Prompts computed by a prefill worker",
      "Prompts computed where they are decoded",
      "Prompts computed where they are decoded because a prefill worker did not deliver",
      "Times receive memory was short for pages of another worker", "Times a worker's breaker opened",
      "Prefill jobs put into the queue", "Prefill jobs sent to a worker without the queue",
      "Prefill jobs that a worker took", "Prefill jobs that a worker refused",
      "Slabs of pages received and imported", "Slabs of pages received and refused",
      "Reservations kept back because a writer may still write to them",
      "Requests cancelled because their router was gone",
      "Requests handed to other workers by a worker that drains", "Role changes of this worker",
      "Role changes that this worker refused", "Streams that went on for a client whose router was gone",
      "… of which no worker knew the beginning, so that it was computed again",
      "Prefixes fetched from a worker whose cache had them",
      "Prefixes that could not be fetched and were computed instead"};
  static_assert(kHelp.back() != nullptr, "each counter has its words");
  return kHelp[static_cast<size_t>(counter)];
}

// Neighbouring counters land far apart.
RequestUid make_uid(WorkerId router, uint64_t counter) {
  return RequestUid{split_mix64(static_cast<uint64_t>(router), counter)};
}

Audience audience(const Message& message) {
  struct Sort {
    Audience operator()(const Hello&) const { return Audience::kBoth; }
    Audience operator()(const Heartbeat&) const { return Audience::kBoth; }
    Audience operator()(const Tokens&) const { return Audience::kRouter; }
    Audience operator()(const GaveUp&) const { return Audience::kRouter; }
    Audience operator()(const ProbeAnswer&) const { return Audience::kRouter; }
    Audience operator()(const KvEvents&) const { return Audience::kRouter; }
    Audience operator()(const Generate&) const { return Audience::kWorker; }
    Audience operator()(const Cancel&) const { return Audience::kWorker; }
    Audience operator()(const Pause&) const { return Audience::kWorker; }
    Audience operator()(const Probe&) const { return Audience::kWorker; }
    Audience operator()(const PrefillJob&) const { return Audience::kWorker; }
    Audience operator()(const Claimed&) const { return Audience::kWorker; }
    Audience operator()(const ClaimAnswer&) const { return Audience::kWorker; }
    Audience operator()(const SlabPosted&) const { return Audience::kWorker; }
    Audience operator()(const PrefillDone&) const { return Audience::kWorker; }
    Audience operator()(const PrefillFailed&) const { return Audience::kWorker; }
    Audience operator()(const WritesStopped&) const { return Audience::kWorker; }
    Audience operator()(const PrefillNews&) const { return Audience::kWorker; }
    Audience operator()(const Orders&) const { return Audience::kBoth; }
    Audience operator()(const CordonNews&) const { return Audience::kRouter; }
    Audience operator()(const FetchFrom&) const { return Audience::kWorker; }
    Audience operator()(const FetchJob&) const { return Audience::kWorker; }
    Audience operator()(const Drain&) const { return Audience::kWorker; }
    Audience operator()(const FlipRole&) const { return Audience::kWorker; }
    Audience operator()(const Recall&) const { return Audience::kWorker; }
    Audience operator()(const Recalled&) const { return Audience::kRouter; }
    Audience operator()(const AskCache&) const { return Audience::kWorker; }
    Audience operator()(const KvSnapshot&) const { return Audience::kRouter; }
    Audience operator()(const QuotaNews&) const { return Audience::kRouter; }
  };
  return std::visit(Sort{}, message);
}

}  // namespace cheetah::cluster
