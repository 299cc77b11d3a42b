// SPDX-License-Identifier: MIT
#pragma once
// What agents say to each other: descriptions, tickets and the small messages around the slabs. Fixed
// little-endian layouts; every reader checks bounds, so bytes from outside end in an Error and never further.
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "cluster/transfer/slot_words.h"
#include "cluster/transfer/transfer.h"

namespace cheetah::cluster::transfer {

inline constexpr uint16_t kTransferVersion = 2;
inline constexpr size_t kMaxControlBytes = 8192;
inline constexpr uint32_t kMaxSlabsPerReservation = 4096;

struct AgentDescription {
  TransferBackend backend{};
  WorkerId worker{};
  std::string address;  // the backend's

  bool operator==(const AgentDescription&) const = default;
};
std::string encode(const AgentDescription& description);
AgentDescription parse_description(std::string_view bytes);

struct Ticket {
  struct Slot {
    uint32_t slot = 0;
    uint32_t generation = 0;
    bool operator==(const Slot&) const = default;
  };
  WorkerId receiver{};
  ReservationId reservation{};
  int64_t slot_bytes = 0;
  std::vector<Slot> slots;

  bool operator==(const Ticket&) const = default;
};
std::string encode(const Ticket& ticket);
Ticket parse_ticket(std::string_view bytes);

struct ExportTicket {
  WorkerId owner{};
  ExportId id{};
  uint64_t token = 0;  // cannot be guessed
  uint32_t num_slabs = 0;

  bool operator==(const ExportTicket&) const = default;
};
std::string encode(const ExportTicket& ticket);
ExportTicket parse_export_ticket(std::string_view bytes);

// ---- Messages ----

struct AgentWelcome {       // both, first: here is my arena
  WriterNumber writer = 0;  // yours in it
  uint32_t num_slots = 0;
  int64_t slot_bytes = 0;
  MemoryKind kind = MemoryKind::kHost;
  std::string device_handle = {};  // CUDA IPC
  std::string address = {};        // UCX: of the worker
  uint64_t token = 0;              // UCX: what your slabs begin with
};
struct SlabNotice {
  TransferId id{};  // the sender's
  uint32_t slot = 0, generation = 0;
  int64_t bytes = 0;
  uint64_t checksum = 0;
  std::string notify;
};
struct WriteEnded {  // without a slab: cancelled, or no longer wanted
  uint32_t slot = 0, generation = 0;
};
struct SlabAck {
  TransferId id{};
  bool good = false;
  uint64_t checksum = 0;
  std::string why;
};
struct PullRequest {
  TransferId id{};  // the puller's
  ExportTicket exported;
  uint32_t index = 0;
  Ticket::Slot into;
  int64_t slot_bytes = 0;
};
struct PullAnswer {
  TransferId id{};
  bool good = false;
  uint64_t checksum = 0;
  std::string why;
};
using AgentMessage = std::variant<AgentWelcome, SlabNotice, WriteEnded, SlabAck, PullRequest, PullAnswer>;
std::string encode(const AgentMessage& message);
AgentMessage parse_agent_message(std::string_view bytes);

}  // namespace cheetah::cluster::transfer
