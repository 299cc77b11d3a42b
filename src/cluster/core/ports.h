#pragma once
// What happens to a core and what it wants done. A core is a state machine: handle(input, now, outputs)
// changes its state and appends what an edge must do, in order. No threads, sockets, clocks or chance in it:
// the processes of a cluster (node/) and the simulator (simulation/) are two edges of the same cores.
//
// What an edge promises:
//  - inputs come one at a time, each with a `now` that never goes back;
//  - between PeerUp and PeerDown stand all messages of one link, in order; PeerDown of an old link comes
//  before PeerUp
//    of the next, and a core's own id is a peer that is always up (messages to it come back as messages from
//    it);
//  - after each handle() it looks at next_wake() and sends Tick at that time or soon after;
//  - every output that says "answers with" gets exactly that input, perhaps much later.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cluster/types.h"
#include "cluster/wire/message.h"
#include "engine/request.h"

namespace cheetah::cluster {

// ---- Inputs of both cores ----

struct PeerMessage {
  WorkerId from{};
  Message message{};
};
struct PeerUp {
  WorkerId peer{};
};
struct PeerDown {
  WorkerId peer{};
};
struct PeerPressed {  // it takes messages more slowly than they are sent, or has caught up
  WorkerId peer{};
  bool pressed = true;
};
// What the registry has, and what changes. While it cannot be reached nothing is said: the last known map
// stays.
struct RegistrySnapshot {
  std::vector<WorkerDescriptor> workers{};
};
struct RegistryPut {
  WorkerDescriptor worker{};
};
struct RegistryGone {  // its lease ended: nothing new goes there, but a link that stands goes on serving
  WorkerId worker{};
};
struct Tick {};

// ---- Inputs of a router ----

struct ClientRequest {
  RequestUid uid{};  // make_uid()
  GenerationRequest request{};
  GrammarSource grammar{};
  std::string tenant{};     // for quotas and logs; may be empty
  std::string qos_class{};  // empty: the default one
  // Which model is to answer (WorkerDescriptor::model); empty: any. Whoever owns the client can make the same
  // request for another model where it says so; `degraded_from` is then what was asked for first.
  std::string model{};
  bool may_change_model = false;
  std::string degraded_from{};
  bool race = false;  // to two workers at once: the first token wins
  std::string trace{};
};
struct ClientCancel {
  RequestUid uid{};
};
struct ClientPause {
  RequestUid uid{};
  bool paused = true;
};
struct QueueDepth {  // of the prefill queue, where the edge can see it
  int64_t jobs = 0;
};

using RouterInput = std::variant<PeerMessage, PeerUp, PeerDown, RegistrySnapshot, RegistryPut, RegistryGone,
                                 Tick, ClientRequest, ClientCancel, ClientPause, QueueDepth>;

// ---- Outputs of both cores ----

struct SendMessage {
  WorkerId to{};
  Message message{};
};

enum class Counter : uint8_t {  // counter_name() has the names for people and Prometheus
  kRequests,
  kRejected,
  kDegraded,
  kOtherModel,
  kMigrations,
  kMigrationLimit,
  kWorkersLost,
  kStaleDropped,
  kDuplicatesDropped,
  kProbes,
  kRaces,
  kRacesWonBySecond,
  kUnavailable,
  kDeadlines,
  kRemotePrefills,
  kLocalPrefills,
  kFallbacks,
  kNoSpace,
  kBreakerOpened,
  kJobsPushed,
  kJobsDirect,
  kJobsClaimed,
  kJobsRefused,
  kSlabsImported,
  kSlabsRefused,
  kQuarantined,
  kOrphansCancelled,
  kHandedOver,
  kFlips,
  kFlipsRefused,
  kCount
};
const char* counter_name(Counter counter);

struct Count {
  Counter counter{};
  int64_t by = 1;
};

// One line for the decision log: what was decided about which request, and why.
struct LogDecision {
  RequestKey key{};
  std::string what{};
  std::string why{};
};

// ---- Outputs of a router ----

// To the client, each once and in order; after one with `done` the uid is free.
struct Emit {
  RequestUid uid{};
  GenerationEvent event{};
  // With done: where the time went, and what it took.
  struct Summary {
    Waterfall workers{};
    Microseconds total{}, first_token{};
    uint32_t attempts = 0;
    WorkerId decode_worker{};
    std::string decision{};                         // why it went where it went
    std::string worker_reason{}, prefill_reason{};  // of that, the two that matter; empty: a refusal
    std::string degraded{};                         // what it got less of: "model", "output"; empty: nothing
    std::optional<Microseconds> retry_after{};      // with a refusal
    std::string refusal{};                          // and why
    // Nothing was done for it: the client's request is to be made again for this model.
    std::string other_model{};
  };
  std::optional<Summary> summary{};
};

using RouterOutput = std::variant<SendMessage, Emit, Count, LogDecision>;

// ---- Inputs of a worker ----

struct EngineEvent {  // of a request that EngineSubmit started; the last has `done`
  RequestKey key{};
  GenerationEvent event{};
};
struct CacheLooked {  // answers LookUpCache
  RequestKey key{};
  int64_t cached_tokens = 0;  // whole pages
};
struct SpaceReserved {  // answers ReserveSpace
  RequestKey key{};
  std::optional<ReservationId> reservation{};  // none: no space now
  std::string memory{};                        // for PrefillJob::memory
};
struct SlabImported {  // answers ImportSlab
  RequestKey key{};
  ReservationId reservation{};
  uint32_t index = 0;
  bool imported = false;  // false: bad checksum, or the cache would not take it
  std::string why{};
  Time landed{};  // all there and checked; Time{}: not known
};
struct ReservationFenced {  // answers FenceReservation: whatever the peer wrote, it writes no more
  ReservationId reservation{};
};
struct ExportProgress {  // of StartExport, after each chunk; the last has `finished` or `failed`
  RequestKey key{};
  int64_t tokens_ready = 0;  // from the prompt's beginning, whole pages
  bool finished = false;
  bool failed = false;
  std::string why{};
};
struct SlabSent {  // answers PostSlab, also one that was fenced
  RequestKey key{};
  uint32_t index = 0;
  bool sent = false;
  uint64_t checksum = 0;
  std::string why{};
};
struct WritesFenced {  // answers FenceWrites: every PostSlab of the key was answered and none writes any more
  RequestKey key{};
};
enum class DeliveryId : uint64_t {};
struct JobDelivered {  // the queue gave us this; it may have been given before
  DeliveryId delivery{};
  PrefillJob job{};
};
struct QueueUp {};
struct QueueDown {};
struct DrainRequested {  // SIGTERM, or an operator
  Duration limit{};
};
struct WarmedUp {};    // answers WarmUp
struct LoadMeasured {  // a few times a second; goes out as Heartbeat
  WorkerLoad load{};
};

using WorkerInput = std::variant<PeerMessage, PeerUp, PeerDown, PeerPressed, RegistrySnapshot, RegistryPut,
                                 RegistryGone, Tick, EngineEvent, CacheLooked, SpaceReserved, SlabImported,
                                 ReservationFenced, ExportProgress, SlabSent, WritesFenced, JobDelivered,
                                 QueueUp, QueueDown, DrainRequested, WarmedUp, LoadMeasured>;

// ---- Outputs of a worker ----

struct EngineSubmit {  // the events come back as EngineEvent; deadline is set; grammar still to be compiled
  RequestKey key{};
  GenerationRequest request{};
  GrammarSource grammar{};
  std::vector<ResumedChoice> resume{};
  std::string trace{};
};
struct EngineCancel {  // the engine answers with a last event as always
  RequestKey key{};
};
struct EnginePause {
  RequestKey key{};
  bool paused = true;
};
struct LookUpCache {
  RequestKey key{};
  std::vector<int32_t> tokens{};
  std::string salt{};
};
struct ReserveSpace {  // for the pages of [first_token, end_token)
  RequestKey key{};
  int64_t first_token = 0, end_token = 0, slab_tokens = 0;
  Time deadline{};  // by when the core will have freed or quarantined it, for the books
};
struct ImportSlab {  // check the sum, then put the pages into the prefix cache and pin them for this request
  RequestKey key{};
  ReservationId reservation{};
  SlabPosted slab{};
  std::vector<int32_t> tokens{};  // from the prompt's beginning to the end of the slab
  std::string salt{};
  int64_t end_token = 0;  // of the text that its pages were computed in
};
struct Unpin {  // the request has been admitted, or is gone: its imported pages are ordinary cached ones
  RequestKey key{};
};
struct Quarantine {  // somebody may still write there: not to be used again until FreeReservation
  ReservationId reservation{};
};
struct FenceReservation {  // make sure that `writer` cannot write there: revoke, close its endpoint
  ReservationId reservation{};
  WorkerId writer{};
};
struct FreeReservation {
  ReservationId reservation{};
};
struct PushJob {
  PrefillJob job{};
};
struct AckJob {
  DeliveryId delivery{};
};
struct NackJob {  // give it to another, soon
  DeliveryId delivery{};
};
struct ExtendJob {  // still at it: start the visibility time again
  DeliveryId delivery{};
};
struct StartExport {  // prefill `tokens` up to end_token and keep the pages until ReleaseExport
  RequestKey key{};
  std::vector<int32_t> tokens{};  // the whole prompt
  std::string salt{};
  int64_t end_token = 0;
  int priority = 0;
  Time deadline{};
};
struct ReleaseExport {  // stops it where it runs; nothing about the key comes after
  RequestKey key{};
};
struct PostSlab {
  RequestKey key{};
  WorkerId to{};
  ReservationId reservation{};
  std::string memory{};
  KvDescriptor kv{};  // what shall arrive there
  uint32_t index = 0;
  int64_t first_token = 0, num_tokens = 0;
};
struct FenceWrites {
  RequestKey key{};
};
struct Announce {  // put it into the registry under our lease
  WorkerDescriptor descriptor{};
};
struct WarmUp {
  Role role{};
};
struct Drained {};  // nothing left: the process may end
// A stretch of a request's time, for its trace. Its id follows from the request's key.
struct RecordSpan {
  std::string parent{};  // W3C traceparent
  uint64_t id = 0;
  std::string name{};
  Time begin{}, end{};
  std::vector<std::pair<std::string, int64_t>> numbers{};  // what there is to say of it
};

using WorkerOutput =
    std::variant<SendMessage, Count, LogDecision, EngineSubmit, EngineCancel, EnginePause, LookUpCache,
                 ReserveSpace, ImportSlab, Unpin, Quarantine, FenceReservation, FreeReservation, PushJob,
                 AckJob, NackJob, ExtendJob, StartExport, ReleaseExport, PostSlab, FenceWrites, Announce,
                 WarmUp, Drained, RecordSpan>;

// A uid nobody else draws: `router` is random and `counter` counts its requests.
RequestUid make_uid(WorkerId router, uint64_t counter);

// Which core of a process a message is for.
enum class Audience : uint8_t { kRouter, kWorker, kBoth };
Audience audience(const Message& message);

}  // namespace cheetah::cluster
