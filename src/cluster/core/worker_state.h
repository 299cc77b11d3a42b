#pragma once
// What a worker knows and does; worker_core.h is its face. Private to core/.
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cluster/core/timers.h"
#include "cluster/core/worker_core.h"

namespace cheetah::cluster {

inline Microseconds micros(Duration duration) {  // a clock of another machine may be ahead
  return std::chrono::duration_cast<Microseconds>(std::max(duration, Duration{}));
}

// A request this worker answers.
struct Serving {
  Generate generate;
  WorkerId router{};
  RequestState state = RequestState::kReceived;
  Time arrived{};
  std::optional<Time> deadline;
  bool submitted = false;                       // the engine has it
  bool cancelled = false;                       // the engine shall end it; nobody is told any more
  bool asked_to_pause = false, paused = false;  // by its client; and the engine was told, for any reason
  uint64_t next_sequence = 0;
  std::vector<int64_t> next_index;  // of each choice's tokens

  // While its prompt is computed elsewhere:
  std::optional<ReservationId> reservation;
  int64_t first_token = 0, end_token = 0;
  std::map<uint32_t, SlabPosted> slabs;  // posted, not yet imported
  uint32_t next_slab = 0;
  int64_t imported_to = 0;
  int64_t computed_to = 0;  // as its prefill worker last said
  Time progressed_at{};     // when that, or what is here, last grew
  bool pinned = false;
  std::optional<PrefillDone> prefilled;
  Waterfall waterfall;
  Time claimed_at{}, submitted_at{}, first_token_at{};
};

// A stretch of receive memory. It outlives its request until nobody can write there any more.
struct Receiving {
  RequestKey owner;
  WorkerId writer{};       // 0: nobody was allowed to
  bool stopped = false;    // the writer has written for the last time
  bool importing = false;  // we read it
  bool abandoned = false;  // nobody waits for it
  bool fencing = false;
};

// A prompt this worker computes for another.
struct Prefilling {
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
  bool exporting = false;                     // the engine holds pages for it
  std::optional<Message> last_word;           // for the decode worker, when writing has stopped
};

struct Peer {
  WorkerDescriptor descriptor;
  WorkerLoad load;
  bool linked = false;
  bool pressed = false;
  bool registered = false;  // the registry has it
};

struct WorkerCore::State {
  explicit State(const WorkerConfig& settings) : config(settings), self(settings.descriptor) {}

  // worker_core.cpp: links and messages
  void on(PeerMessage& input);
  void on(const PeerUp& input);
  void on(const PeerDown& input);
  void on(const PeerPressed& input);
  void on(const RegistrySnapshot& input);
  void on(const RegistryPut& input);
  void on(const RegistryGone& input);
  void on(const Tick&) {}  // every input looks at the timers
  void on(const QueueUp&) { queue_up = true; }
  void on(const QueueDown&) { queue_up = false; }
  void on_message(WorkerId from, const Hello& message);
  Peer& describe_peer(const WorkerDescriptor& descriptor);
  void on_message(WorkerId from, const Heartbeat& message);
  template <class Other>
  void on_message(WorkerId, const Other&) {}  // not for a worker
  void run_timers();

  // worker_decode.cpp: from a router to the engine and back
  void on_message(WorkerId from, Generate& message);
  void on_message(WorkerId from, const Cancel& message);
  void on_message(WorkerId from, const Pause& message);
  void on_message(WorkerId from, const Probe& message);
  void on(EngineEvent& input);
  bool takes(WorkerId from, const Generate& message);
  void submit(Serving& serving);
  void pause_or_go_on(Serving& serving);
  void stop_serving(RequestKey key);
  void forget(RequestKey key);
  void give_up(RequestKey key, GiveUpReason reason, const std::string& why);
  void remember(RequestKey key);
  bool stale(RequestKey key) const;
  void close_waterfall(Serving& serving, const GenerationEvent& event);

  // worker_receive.cpp: pages from elsewhere
  bool may_prefill_elsewhere(const Generate& message) const;
  void on(const CacheLooked& input);
  void on(const SpaceReserved& input);
  void on(const SlabImported& input);
  void on(const ReservationFenced& input);
  void on_message(WorkerId from, const Claimed& message);
  void on_message(WorkerId from, const SlabPosted& message);
  void on_message(WorkerId from, const PrefillDone& message);
  void on_message(WorkerId from, const PrefillFailed& message);
  void on_message(WorkerId from, const WritesStopped& message);
  void on_message(WorkerId from, const PrefillNews& message);
  void wait_for_more(Serving& serving);
  void dispatch(Serving& serving, const std::string& memory);
  std::optional<WorkerId> prefill_peer(WorkerId hint) const;
  void import_next(Serving& serving);
  void note_imported(Serving& serving, const SlabPosted& slab, Time landed);
  void fall_back(Serving& serving, const std::string& why);
  void abandon(Serving& serving);
  void settle(ReservationId id);
  void fence(ReservationId id);
  void space_is_free();
  void remote_failed();
  Serving* receiver(WorkerId from, RequestKey key, ReservationId reservation);

  // worker_prefill.cpp: pages for others
  void on(JobDelivered& input);
  void on_message(WorkerId from, PrefillJob& message);
  void on_message(WorkerId from, const ClaimAnswer& message);
  void on(const ExportProgress& input);
  void on(const SlabSent& input);
  void on(const WritesFenced& input);
  void take_job(PrefillJob job, std::optional<DeliveryId> delivery);
  bool prefills() const;
  void finish_job_if_done(RequestKey key);
  void stop_job(RequestKey key, std::optional<Message> last_word);
  void end_job(RequestKey key);
  void look_at_job(RequestKey key);
  void schedule_job(const Prefilling& work);
  int64_t reach(const PrefillJob& job) const;
  void refuse_job(const PrefillJob& job, std::optional<DeliveryId> delivery, const std::string& why);

  // worker_trace.cpp: what becomes of the times
  std::string trace_of_answer(const Generate& generate) const;
  void record_answer(const Serving& serving);
  void record_job(const Prefilling& work);

  // worker_roles.cpp: coming, going and changing
  void on(const DrainRequested& input);
  void on(const WarmedUp& input);
  void on(const LoadMeasured& input);
  void on_message(WorkerId from, const Drain& message);
  void on_message(WorkerId from, const FlipRole& message);
  void start_draining(Duration limit);
  void hand_over();
  void go_on_if_idle();
  void tell_peers();
  void set_state(WorkerState state);
  bool idle() const { return servings.empty() && jobs.empty() && receivings.empty(); }
  bool linked(WorkerId peer) const;

  // Built in place, out of line: gcc 12 takes a moved-from variant for an uninitialised one.
  void say(WorkerId to, Message message);
  void count(Counter counter);
  void log(RequestKey key, std::string what, std::string why);
  template <class Output>
  void want(Output output) {
    out->emplace_back(std::in_place_type<Output>, std::move(output));
  }

  WorkerConfig config;
  WorkerDescriptor self;
  PlantedBugs planted;
  std::map<WorkerId, Peer> peers;
  std::map<RequestKey, std::unique_ptr<Serving>> servings;
  std::map<ReservationId, Receiving> receivings;
  std::map<RequestKey, std::unique_ptr<Prefilling>> jobs;
  std::map<RequestUid, std::pair<Attempt, Time>> ended;  // the newest attempt heard of, and until when
  std::vector<std::pair<Time, RequestUid>> ended_order;  // a ring would do; it is swept when half is old
  Timers<RequestKey> serving_timers, job_timers;
  Timers<ReservationId> fence_timers;
  bool queue_up = false;
  int remote_failures = 0;  // in a row
  Time breaker_until{};

  bool leaving = false, drained = false;
  std::optional<FlipRole> flip;
  Time drain_until = Time::max();
  Time last_flip{};
  bool ever_flipped = false;
  WorkerLoad load;
  // While an input is handled:
  Time now{};
  std::vector<WorkerOutput>* out = nullptr;
};

}  // namespace cheetah::cluster
