// SPDX-License-Identifier: MIT
#pragma once
// Moves KV pages between workers. Every process has one agent. The receiver reserves slots of its receive
// arena and gives the ticket to the worker that fills them; the sender pushes slabs into those slots, or the
// receiver pulls them from what the sender exports. A slab counts as arrived only when all of it has landed
// and its checksum is right. A slot is used again only when nothing can be written there any more.
//
//   receiver                                   sender
//   reserve(key, slabs, deadline) -> ticket -> add_peer(worker, description)
//                                              push({worker, ticket, index, pieces, notify}) -> id
//   poll: SlabArrived{reservation, index}      poll: PushDone{id, checksum}   (landed and checked)
//   slab(reservation, index) -> bytes
//   release(reservation)  or  cancel(reservation) … poll: ReservationFreed
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "cluster/net/credentials.h"
#include "cluster/types.h"

namespace cheetah::cluster {

enum class ReservationId : uint64_t;  // wire/message.h
enum class TransferId : uint64_t {};
enum class ExportId : uint64_t {};
enum class MemoryHandle : uint64_t {};

enum class TransferBackend : uint8_t { kInProcess, kSharedMemory, kUcx, kTcp };
const char* name_of(TransferBackend backend);
std::optional<TransferBackend> transfer_backend_from_name(std::string_view name);
// Empty when this build and machine have it, else one sentence that says what is missing.
std::string why_unavailable(TransferBackend backend);

enum class MemoryKind : uint8_t { kHost, kDevice };

// Where agents of one process find each other. Shared by all of them; outlives them.
class InProcessFabric;
std::shared_ptr<InProcessFabric> make_in_process_fabric();

struct TransferConfig {
  TransferBackend backend = TransferBackend::kInProcess;
  WorkerId self{};
  // A peer proves that it belongs to the cluster before anything of it is accepted. Shared with the links.
  Credentials credentials;
  int64_t slot_bytes = int64_t{16} << 20;  // the largest slab
  int64_t num_slots = 16;
  MemoryKind arena = MemoryKind::kHost;      // kDevice: shared memory backend on one GPU (CUDA IPC)
  Duration stall = std::chrono::seconds(5);  // nothing arrived for so long in a reservation being filled
  std::string host = "127.0.0.1";            // tcp and ucx listen here
  uint16_t port = 0;                         // 0: any that is free
  std::string ucx_transports;                // UCX_TLS; empty: tcp, shared memory, and RDMA where there is
  std::shared_ptr<InProcessFabric> fabric;   // for kInProcess
  // For tests of what breaks there: called by the inner thread while a slab is begun and not finished.
  std::function<void()> midway;
};

// What a peer has been told to write where; `pieces` must stay as they are until PushDone.
struct Push {
  WorkerId to{};
  std::string_view ticket;                         // from the peer's reserve()
  uint32_t index = 0;                              // which of the reservation's slabs
  std::vector<std::span<const std::byte>> pieces;  // gathered one after another
  MemoryKind kind = MemoryKind::kHost;             // of the pieces
  std::string_view notify = {};                    // comes with SlabArrived; at most kMaxNotifyBytes
};
inline constexpr size_t kMaxNotifyBytes = 4096;

struct Pull {
  WorkerId from{};
  std::string_view exported;  // from the peer's export_slabs()
  uint32_t index = 0;         // which of the exported slabs
  ReservationId into{};       // our own
  uint32_t into_index = 0;
};

struct Reservation {
  ReservationId id{};
  std::string ticket;  // opaque to all but a peer's agent
};

// ---- What poll() tells ----

struct SlabArrived {  // all there, checksum right
  ReservationId reservation{};
  RequestKey key;
  WorkerId from{};
  uint32_t index = 0;
  int64_t bytes = 0;
  uint64_t checksum = 0;
  std::string notify;
};
struct SlabDamaged {  // landed, but the checksum is wrong; its slot is open again
  ReservationId reservation{};
  RequestKey key;
  WorkerId from{};
  uint32_t index = 0;
};
struct ReservationStalled {  // deadline over, or nothing arrived for `stall`: cancelled, ReservationFreed
                             // follows
  ReservationId reservation{};
  RequestKey key;
  std::string why;
};
struct ReservationFreed {  // after release() or cancel(): its slots can be reserved again
  ReservationId reservation{};
};
struct PushDone {  // exactly one for each push() and pull(), also a cancelled one; never before writes have
                   // ended
  TransferId id{};
  bool done = false;  // landed and checked at the receiver
  uint64_t checksum = 0;
  std::string why;  // when not
};
struct ExportFreed {  // after unexport(): it is not read any more
  ExportId id{};
};
struct TransferPeerDown {  // nothing of it can land any more; pushes to it have ended
  WorkerId peer{};
  std::string why;
};
using TransferEvent = std::variant<SlabArrived, SlabDamaged, ReservationStalled, ReservationFreed, PushDone,
    ExportFreed, TransferPeerDown>;

enum class ReservationState : uint8_t { kReserved, kFilling, kComplete, kQuarantined };
struct ReservationStatus {
  ReservationId id{};
  RequestKey owner;
  ReservationState state{};
  Time deadline{};
  uint32_t slabs = 0, arrived = 0;
};

// One process's end. One thread owns it and calls everything; a thread inside moves bytes. Destroying it
// closes all connections and does not wait for peers.
class TransferAgent {
 public:
  virtual ~TransferAgent() = default;

  // How peers reach us, for WorkerDescriptor::transfer. Holds no secret.
  virtual std::string describe() const = 0;
  // Connects, in the background. Throws Error when the description does not parse or is of another backend.
  // Adding a peer again with the same description changes nothing.
  virtual void add_peer(WorkerId peer, std::string_view description) = 0;
  // Its link is dead: close what leads to and from it. TransferPeerDown follows as soon as nothing of it can
  // land any more.
  virtual void drop_peer(WorkerId peer) = 0;

  // Memory that pushes read from. Optional: it saves the transport from registering it each time.
  virtual MemoryHandle register_memory(std::span<std::byte> region, MemoryKind kind) = 0;
  virtual void unregister_memory(MemoryHandle handle) = 0;

  // Slots for `slabs` slabs, or nullopt when there are not enough free ones now.
  virtual std::optional<Reservation> reserve(RequestKey owner, uint32_t slabs, Time deadline) = 0;
  // The bytes of a slab that has arrived, until release() or cancel(); nullopt while it has not. On the
  // device when the arena is.
  virtual std::optional<std::span<const std::byte>> slab(ReservationId id, uint32_t index) = 0;
  // Done with it, or no longer wanted: whatever still comes is refused, writes in progress are waited for
  // (quarantine). ReservationFreed follows. The same thing under two names; both may be called twice.
  virtual void release(ReservationId id) = 0;
  void cancel(ReservationId id) { release(id); }
  // Somebody reads its slabs: whatever happens to it, its slots are not used again until let go.
  virtual void hold(ReservationId id) = 0;
  virtual void let_go(ReservationId id) = 0;

  virtual TransferId push(const Push& push) = 0;
  // Lets peers pull these slabs until unexport(). What is returned is for them.
  struct Exported {
    ExportId id{};
    std::string ticket;
  };
  virtual Exported export_slabs(
      std::vector<std::vector<std::span<const std::byte>>> slabs, MemoryKind kind) = 0;
  virtual void unexport(ExportId id) = 0;
  virtual TransferId pull(const Pull& pull) = 0;
  // Ends a push or pull as soon as possible; PushDone still follows, saying whether it was done all the same.
  virtual void cancel(TransferId id) = 0;

  // Appends what has happened. `now` drives deadlines and stalls.
  virtual void poll(Time now, std::vector<TransferEvent>& out) = 0;
  // Sleeps until there may be something to poll, or the time is up.
  virtual void wait_until(Time until) = 0;
  // Called from the inner thread whenever there may be something to poll; must only wake a thread. Set before
  // the first peer; once an empty one is set, the last is not called any more.
  virtual void on_ready(std::function<void()> callback) = 0;

  virtual std::vector<ReservationStatus> reservations() const = 0;
  virtual int64_t free_slots() const = 0;
};

// Throws Error with why_unavailable()'s sentence, or when the address cannot be listened on.
std::unique_ptr<TransferAgent> make_transfer_agent(const TransferConfig& config);

}  // namespace cheetah::cluster
