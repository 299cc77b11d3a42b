// SPDX-License-Identifier: MIT
#pragma once
// What happens to a worker and what it wants done (ports.h). A new input or output is one entry of its variant:
// the core, the edges and the simulator do not compile until each handles it, and its name follows by itself.
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cluster/core/ports.h"

namespace cheetah::cluster {

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
struct CordonOrdered {  // by an operator; `limit`: what still runs then is handed over
  bool cordoned = false;
  std::optional<Duration> limit{};
};
struct WarmedUp {};    // answers WarmUp
struct LoadMeasured {  // a few times per second; goes out as Heartbeat
  WorkerLoad load{};
};

using WorkerInput = std::variant<PeerMessage, PeerUp, PeerDown, PeerPressed, RegistrySnapshot, RegistryPut,
    RegistryGone, Tick, EngineEvent, CacheLooked, SpaceReserved, SlabImported, ReservationFenced,
    ExportProgress, SlabSent, WritesFenced, JobDelivered, QueueUp, QueueDown, DrainRequested, WarmedUp,
    LoadMeasured, CordonOrdered>;

// ---- Outputs of a worker ----

struct EngineSubmit {  // the events come back as EngineEvent; deadline is set; grammar still to be compiled
  RequestKey key{};
  GenerationRequest request{};
  GrammarSource grammar{};
  std::vector<ResumedChoice> resume{};
  std::vector<int64_t> told{};  // of each choice of `resume`, the tokens that are not said again; empty: all
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
  Time deadline{};  // by when the core will have freed or quarantined it, for the count
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
struct Quarantine {  // a peer may still write there: not to be used again until FreeReservation
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
  bool only_cached = false;  // fails where its pages are not there any more, but for the last
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

using WorkerOutput = std::variant<SendMessage, Count, LogDecision, EngineSubmit, EngineCancel, EnginePause,
    LookUpCache, ReserveSpace, ImportSlab, Unpin, Quarantine, FenceReservation, FreeReservation, PushJob,
    AckJob, NackJob, ExtendJob, StartExport, ReleaseExport, PostSlab, FenceWrites, Announce, WarmUp, Drained,
    RecordSpan>;

}  // namespace cheetah::cluster
