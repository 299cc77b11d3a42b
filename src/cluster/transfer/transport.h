// SPDX-License-Identifier: MIT
#pragma once
// The interface between an agent and the thread that moves its bytes.
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/mailbox.h"
#include "base/published.h"
#include "cluster/net/crypto.h"
#include "cluster/transfer/slot_words.h"
#include "cluster/transfer/transfer_wire.h"

namespace cheetah::cluster::transfer {

// An arena as its readers and writers see it.
struct ArenaView {
  SlotWords words;
  std::byte* data = nullptr;
  int64_t slot_bytes = 0;
  MemoryKind kind = MemoryKind::kHost;

  std::byte* slot(uint32_t index) const { return data + static_cast<int64_t>(index) * slot_bytes; }
  std::span<const std::byte> bytes(uint32_t index, int64_t count) const {
    return {slot(index), static_cast<size_t>(count)};
  }
};

enum class LinkId : uint64_t {};

// ---- Owner to inner thread ----

struct PageKeys;  // sealed_slab.h
// As it crosses a network.
struct SealedSlab {
  std::string header;
  std::unique_ptr<std::byte[]> bytes;
};
// How a slab that landed is opened; without keys it came in the clear.
struct SlabSeal {
  std::shared_ptr<const PageKeys> keys = nullptr;  // shared with the session
  uint64_t count = 0;
  SealTag tag = {};
};
struct PushOrder {
  TransferId id{};
  WorkerId to{};
  Ticket::Slot slot;
  std::vector<std::span<const std::byte>> pieces;
  int64_t bytes = 0;
  MemoryKind kind = MemoryKind::kHost;
  std::string notify;
  std::shared_ptr<std::atomic<bool>> cancelled;  // the agent sets it, the inner thread looks between chunks
  // Where the transport has it sealed first: under the keys of the session that it goes through.
  std::shared_ptr<PageKeys> keys = nullptr;
  std::optional<SealedSlab> sealed = {};
};
struct ConnectOrder {
  WorkerId peer{};
  std::string address;
};
struct DropOrder {
  WorkerId peer{};
};
struct SayOrder {
  WorkerId to{};
  AgentMessage message;
};
struct RegisterOrder {
  MemoryHandle handle{};
  std::span<std::byte> region;
  MemoryKind kind = MemoryKind::kHost;
};
struct UnregisterOrder {
  MemoryHandle handle{};
};
struct AnswerOrder {  // from the thread that checks slabs
  LinkId link{};
  SlabNotice notice;
  bool good = false;
  bool wanted = false;
};
using TransportOrder =
    std::variant<PushOrder, ConnectOrder, DropOrder, SayOrder, RegisterOrder, UnregisterOrder, AnswerOrder>;

// ---- Inner thread to owner ----

struct SlabLanded {
  WorkerId from{};
  SlabNotice notice;
  bool good = false;
};
struct PeerSaid {  // SlabAck, PullRequest, PullAnswer or WriteEnded
  WorkerId from{};
  AgentMessage message;
};
struct PushEnded {  // without an answer of the receiver
  TransferId id{};
  std::string why;
};
struct PeerGone {
  WorkerId peer{};
  std::string why;
};
using TransportEvent = std::variant<SlabLanded, PeerSaid, PushEnded, PeerGone>;

struct EventSink {
  Mailbox<TransportEvent> box;
  Published<std::function<void()>> ready;  // what wakes the owner where it waits for other things too

  void post(TransportEvent event) {
    box.post(std::move(event));
    // Under its lock: who has taken the callback back is not called any more.
    ready.with([](const std::function<void()>& wake) {
      if (wake) wake();
    });
  }
};

// Has threads of its own, which end with it. post() may be called by any.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual std::string address() const = 0;
  virtual ArenaView arena() const = 0;
  virtual void post(TransportOrder order) = 0;
};

std::unique_ptr<Transport> make_in_process_transport(const TransferConfig& config, EventSink& sink);
std::unique_ptr<Transport> make_shared_memory_transport(const TransferConfig& config, EventSink& sink);
std::unique_ptr<Transport> make_tcp_transport(const TransferConfig& config, EventSink& sink);
std::unique_ptr<Transport> make_ucx_transport(const TransferConfig& config, EventSink& sink);

}  // namespace cheetah::cluster::transfer
