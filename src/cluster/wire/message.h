// SPDX-License-Identifier: MIT
#pragma once
// What the processes of a cluster say to each other: plain structs, one variant. codec.h makes bytes of them.
//
// Every message about a request carries its key; one with an older attempt than the receiver knows is stale
// and dropped. Any message may be lost with its link, come twice or come late: handling one twice changes
// nothing. Times cross as time left or time spent, never as a reading of a clock.
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "cluster/types.h"
#include "engine/request.h"

namespace cheetah::cluster {

using Microseconds = std::chrono::microseconds;

// A stretch of a decode worker's receive memory, unique in the life of that worker.
enum class ReservationId : uint64_t {};

// What the client already has of one choice. The engine that takes over replays the tokens silently.
struct ResumedChoice {
  std::vector<int32_t> tokens{};
  bool finished = false;  // nothing more of it is wanted
  float mirostat_mu = 0.f;

  bool operator==(const ResumedChoice&) const = default;
};

// What a grammar was compiled from: each worker compiles it again for itself.
struct GrammarSource {
  std::string kind{};  // empty: no grammar
  std::string text{};

  bool operator==(const GrammarSource&) const = default;
};

// First on every link, in both directions.
struct Hello {
  WorkerDescriptor descriptor{};
};

// Several times a second to every peer; a peer that is silent for too long counts as lost.
struct Heartbeat {
  Role role = Role::kBoth;
  WorkerState state = WorkerState::kReady;
  uint64_t epoch = 0;
  WorkerLoad load{};
};

enum class PrefillPlace : uint8_t { kHere, kElsewhere };

// Router to decode worker: answer this. `request.deadline` and `request.grammar` do not cross: time_left and
// grammar do.
struct Generate {
  RequestKey key{};
  GenerationRequest request{};
  GrammarSource grammar{};
  std::vector<ResumedChoice> resume{};  // empty: from the start; else one for each choice
  PrefillPlace prefill = PrefillPlace::kHere;
  WorkerId prefill_hint{};  // 0: the first to pull the job
  std::optional<Microseconds> time_left{};
  std::string trace{};  // W3C traceparent of the request's span; may be empty
  // Since version 5. What a router that asks for it later calls the answer; empty: nobody will.
  std::string recall{};
  // Of each choice of `resume`, how many tokens its router has forwarded: the others are said again. Empty: all.
  std::vector<int64_t> told{};
};

// A slab of pages on its way, on the decode worker's clock: times since the request came there.
struct SlabTimes {
  int64_t first_token = 0, num_tokens = 0;
  Microseconds posted{};    // its sender began with it, by the sender's word of how long it took
  Microseconds landed{};    // all of it here, its checksum right
  Microseconds imported{};  // in the prefix cache

  bool operator==(const SlabTimes&) const = default;
};

// Where a request's time went at the workers, as far as it is known. Zero: did not happen (yet).
struct Waterfall {
  Microseconds queued{};      // waiting for space, for a prefill worker, for the engine
  Microseconds prefill{};     // computing the prompt, wherever
  Microseconds transfer{};    // from the last page computed to the last page here
  Microseconds decode{};      // from the first token on
  int64_t remote_tokens = 0;  // of the prompt, computed elsewhere
  WorkerId prefill_worker{};  // 0: none
  Microseconds computed{};    // since the request came: the prompt had been computed elsewhere
  int64_t slabs_hidden = 0;   // posted while the prompt was still being computed
  std::vector<SlabTimes> slabs{};
  std::string fallback{};  // why the decode worker computed a prompt that another should have; "": it did not

  bool operator==(const Waterfall&) const = default;
};

// Decode worker to router: what the engine said. `sequence` counts the messages of this attempt from 0, so
// that the router forwards each once and in order; first_index is that of event.tokens[0] in its choice. The
// event's times are offsets from `arrived`, which is the epoch of the clock.
struct Tokens {
  RequestKey key{};
  uint64_t sequence = 0;
  int64_t first_index = 0;
  GenerationEvent event{};
  Waterfall waterfall{};  // on the last
};

enum class GiveUpReason : uint8_t {
  kDraining,   // this worker leaves: the request goes on elsewhere
  kUnknown,    // never heard of it, or long forgotten
  kFailed,     // the worker's fault
  kNotMyRole,  // does not decode
};

// Decode worker to router: this attempt ends here without an end; try elsewhere.
struct GaveUp {
  RequestKey key{};
  GiveUpReason reason = GiveUpReason::kFailed;
  std::string why{};
};

// Router to decode worker, decode worker to prefill worker: it is not waited for any more.
struct Cancel {
  RequestKey key{};
};

// The client reads too slowly, or reads again.
struct Pause {
  RequestKey key{};
  bool paused = true;
};

// Router to decode worker, after a silence: do you still have it, and what did I miss?
struct Probe {
  RequestKey key{};
};
struct ProbeAnswer {
  RequestKey key{};
  uint64_t next_sequence = 0;  // of the next Tokens; GaveUp answers where the request is unknown
};

// Decode worker to the prefill queue, or, where the queue is down, straight to a prefill worker: compute the
// pages of `tokens` and write those from first_token on into the reservation.
struct PrefillJob {
  RequestKey key{};
  WorkerId reply_to{};
  std::vector<int32_t> tokens{};
  std::string salt{};
  int64_t first_token =
      0;                  // of the pages wanted: a multiple of the page size; those before are there already
  int64_t end_token = 0;  // a multiple of the page size
  int64_t slab_tokens =
      0;  // slab i holds the tokens from first_token + i * slab_tokens on; the last may be short
  ReservationId reservation{};
  std::string memory{};  // how to write there; opaque to all but transfer/
  KvDescriptor kv{};     // what shall arrive there
  int priority = 0;
  Microseconds time_left{};  // from when the job is pushed; after that it is not waited for
  std::string trace{};
};

// Prefill worker to decode worker: I have this job; shall I? Nothing is written before the answer.
struct Claimed {
  RequestKey key{};
  ReservationId reservation{};
  // How far its own pages reach, in whole pages of the job's; 0: all of it.
  int64_t end_token = 0;
};
struct ClaimAnswer {
  RequestKey key{};
  ReservationId reservation{};
  bool accepted = false;
};

// Prefill worker to decode worker: these pages are written. The receiver checks the sum before it uses them.
struct SlabPosted {
  RequestKey key{};
  ReservationId reservation{};
  uint32_t index = 0;       // of the job's slabs: they cover the job's tokens in order
  int64_t first_token = 0;  // whole pages
  int64_t num_tokens = 0;
  uint64_t checksum = 0;
  Microseconds spent{};  // since its pages were there to be sent
};

struct PrefillDone {
  RequestKey key{};
  ReservationId reservation{};
  int64_t end_token = 0;  // the slabs posted reach to here
  uint32_t num_slabs = 0;
  Microseconds queued{}, prefill{};
  Microseconds since_computed{};
  uint32_t slabs_hidden = 0;  // posted before the last of the prompt had been computed
};

struct PrefillFailed {
  RequestKey key{};
  ReservationId reservation{};
  std::string why{};
};

// Prefill worker to decode worker: I have written to this reservation for the last time. Answers Cancel;
// after PrefillDone and PrefillFailed it goes without saying.
struct WritesStopped {
  RequestKey key{};
};

// To a worker: take nothing new, finish or hand over what you have within the limit, then leave.
struct Drain {
  Microseconds limit{};
};

// To a worker: become this. Refused within the dwell time of the last flip and where epoch is not newer.
struct FlipRole {
  Role role = Role::kBoth;
  uint64_t epoch = 0;
};

// What changed in a worker's prefix cache. A receiver that misses a number forgets what it knew of the
// worker.
struct CacheChange {
  enum class Kind : uint8_t { kStored, kRemoved, kCleared };
  Kind kind = Kind::kStored;
  uint64_t block = 0;   // chained hash of the tokens up to the page's end and the salt
  uint64_t parent = 0;  // of the page before; 0: none

  bool operator==(const CacheChange&) const = default;
};
struct KvEvents {
  WorkerId worker{};
  uint64_t first_number = 0;
  std::vector<CacheChange> changes{};
};

// Prefill worker to decode worker: I am still at it, and so far it is computed.
struct PrefillNews {
  RequestKey key{};
  ReservationId reservation{};
  int64_t tokens_ready = 0;
};

// Router to decode worker, since version 5: which tokens did you say when another router asked for this? A client
// whose stream ended with that router wants the rest of it from this one.
struct Recall {
  RequestUid uid{};  // here
  std::string recall{};
};
struct Recalled {
  RequestUid uid{};
  bool known = false;
  int64_t max_tokens = 0, min_tokens = 0;       // as the request had them
  std::vector<std::vector<int32_t>> choices{};  // empty: none was said
};

// Router to worker, since version 5: what does your prefix cache hold? The router has just met it, or missed some of
// its KvEvents.
struct AskCache {};
struct KvSnapshot {
  uint64_t next_number = 0;  // of the change that is not in it
  std::vector<uint64_t> blocks{};
};

// Router to router, since version 5, so that a quota is one quota at every router: what tenants took since this was
// said last, and, to one that has just come, what they have left.
struct QuotaNews {
  struct Entry {
    std::string tenant{};
    double taken = 0;  // 0: `left` alone
    double left = 0;
  };
  std::vector<Entry> entries{};
};

// What an operator wants of the cluster. Every node keeps all of them; of each subject the newest counts.
struct Order {
  std::string subject{};  // "cordon/NODE", "role/NODE", "replicas/POOL"
  std::string wish{};     // empty: the order is lifted
  uint64_t version = 0;   // counts up over all subjects
  WorkerId by{};          // the node that took it from the operator: decides between equal versions

  bool operator==(const Order&) const = default;
};
// To every peer: orders that it may not know. Who learns of one passes it on.
struct Orders {
  std::vector<Order> orders{};
};

// Worker to its peers: how far it is with the order to take nothing new.
struct CordonNews {
  Cordon cordon = Cordon::kNone;
};

// Router to decode worker, before Generate: the first `tokens` of its prompt lie in that worker's cache, from
// which they are to be had sooner than computed.
struct FetchFrom {
  RequestKey key{};
  WorkerId from{};
  int64_t tokens = 0;
};
// Decode worker to the one that has a prefix: send its pages; as a PrefillJob, but nothing is computed for it.
struct FetchJob {
  PrefillJob job{};
};

// The order is the wire's: append only.
using Message = std::variant<Hello, Heartbeat, Generate, Tokens, GaveUp, Cancel, Pause, Probe, ProbeAnswer,
    PrefillJob, Claimed, ClaimAnswer, SlabPosted, PrefillDone, PrefillFailed, WritesStopped, Drain, FlipRole,
    KvEvents, PrefillNews, Recall, Recalled, AskCache, KvSnapshot, QuotaNews, Orders, CordonNews, FetchFrom,
    FetchJob>;

std::string_view message_name(const Message& message);

}  // namespace cheetah::cluster
