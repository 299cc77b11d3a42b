// SPDX-License-Identifier: MIT
// The agent: the owner's tables, orders to the transport's thread, and its events turned into what
// poll() tells.
#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/format.h"
#include "cluster/net/crypto.h"
#include "cluster/transfer/reservation_table.h"
#include "cluster/transfer/transport.h"

namespace cheetah::cluster::transfer {
namespace {

std::unique_ptr<Transport> make_transport(const TransferConfig& config, EventSink& sink) {
  if (const std::string why = why_unavailable(config.backend); !why.empty()) throw Error(why);
  if (config.arena == MemoryKind::kDevice && config.backend != TransferBackend::kSharedMemory)
    throw Error("transfer: an arena on the device needs the shared memory backend");
  switch (config.backend) {
    case TransferBackend::kInProcess:
      return make_in_process_transport(config, sink);
    case TransferBackend::kSharedMemory:
      return make_shared_memory_transport(config, sink);
    case TransferBackend::kUcx:
      return make_ucx_transport(config, sink);
    case TransferBackend::kTcp:
      return make_tcp_transport(config, sink);
  }
  throw Error("transfer: no such backend");
}

class Agent final : public TransferAgent {
 public:
  explicit Agent(const TransferConfig& config)
      : config_(config),
        transport_(make_transport(config, sink_)),
        table_(config.self, transport_->arena(), config.stall) {}

  std::string describe() const override {
    return encode(AgentDescription{config_.backend, config_.self, transport_->address()});
  }
  void add_peer(WorkerId peer, std::string_view description) override;
  void drop_peer(WorkerId peer) override { transport_->post(DropOrder{peer}); }

  MemoryHandle register_memory(std::span<std::byte> region, MemoryKind kind) override {
    const MemoryHandle handle{++last_id_};
    transport_->post(RegisterOrder{handle, region, kind});
    return handle;
  }
  void unregister_memory(MemoryHandle handle) override { transport_->post(UnregisterOrder{handle}); }

  std::optional<Reservation> reserve(RequestKey owner, uint32_t slabs, Time deadline) override {
    table_.collect(Time::min(), pending_);  // what became free since the last poll
    return table_.reserve(owner, slabs, deadline);
  }
  std::optional<std::span<const std::byte>> slab(ReservationId id, uint32_t index) override {
    take_events(std::chrono::steady_clock::now());
    return table_.slab(id, index);
  }
  void release(ReservationId id) override {
    table_.release(id);
    table_.collect(Time::min(), pending_);
  }
  void hold(ReservationId id) override { table_.hold(id); }
  void let_go(ReservationId id) override {
    table_.let_go(id);
    table_.collect(Time::min(), pending_);
  }

  TransferId push(const Push& push) override;
  Exported export_slabs(std::vector<std::vector<std::span<const std::byte>>> slabs, MemoryKind kind) override;
  void unexport(ExportId id) override;
  TransferId pull(const Pull& pull) override;
  void cancel(TransferId id) override;

  void poll(Time now, std::vector<TransferEvent>& out) override {
    take_events(now);
    table_.collect(now, pending_);
    std::ranges::move(pending_, std::back_inserter(out));
    pending_.clear();
  }
  void wait_until(Time until) override {
    if (pending_.empty()) sink_.box.wait_until(until);
  }
  void on_ready(std::function<void()> callback) override { sink_.ready.swap_in(callback); }

  std::vector<ReservationStatus> reservations() const override { return table_.status(); }
  int64_t free_slots() const override { return table_.free_slots(); }

 private:
  struct Export {
    uint64_t token = 0;
    std::vector<std::vector<std::span<const std::byte>>> slabs;
    MemoryKind kind{};
    int64_t readers = 0;
    bool ended = false;
  };
  struct Pushing {
    std::shared_ptr<std::atomic<bool>> cancelled;
    // Set when a peer pulled it: then the peer hears of the end, not the owner.
    WorkerId puller{};
    TransferId pull_id{};
    std::optional<ExportId> exported;
  };
  struct Pulling {
    WorkerId from{};
    ReservationId into{};
    uint32_t into_index = 0;
  };

  TransferId new_transfer() { return TransferId{++last_id_}; }
  void fail(TransferId id, std::string why) { pending_.emplace_back(PushDone{id, false, 0, std::move(why)}); }
  void start(TransferId id, PushOrder order, Pushing pushing);
  void take_events(Time now);
  void handle(SlabLanded& event, Time now);
  void handle(PeerSaid& event, Time now);
  void handle(PushEnded& event, Time) { finish_push(event.id, false, 0, event.why); }
  void handle(PeerGone& event, Time now);
  void finish_push(TransferId id, bool good, uint64_t checksum, const std::string& why);
  void finish_pull(TransferId id, bool good, uint64_t checksum, const std::string& why);
  void answer_pull(WorkerId puller, const PullRequest& request);
  void end_read(ExportId id);

  TransferConfig config_;
  EventSink sink_;
  std::unique_ptr<Transport> transport_;  // after the sink: its thread ends first
  ReservationTable table_;
  std::vector<TransferEvent> pending_;
  std::vector<TransportEvent> taken_;
  std::map<TransferId, Pushing> pushes_;
  std::map<TransferId, Pulling> pulls_;
  std::map<ExportId, Export> exports_;
  uint64_t last_id_ = 0;
};

void Agent::add_peer(WorkerId peer, std::string_view description) {
  const AgentDescription other = parse_description(description);
  if (other.backend != config_.backend)
    throw Error(format("transfer peer {:x}: uses {}, expected {} as this worker does",
        static_cast<uint64_t>(peer), name_of(other.backend), name_of(config_.backend)));
  if (other.worker != peer)
    throw Error(format("transfer peer {:x}: its description is that of worker {:x}",
        static_cast<uint64_t>(peer), static_cast<uint64_t>(other.worker)));
  transport_->post(ConnectOrder{peer, other.address});
}

void Agent::start(TransferId id, PushOrder order, Pushing pushing) {
  for (const auto& piece : order.pieces) order.bytes += std::ssize(piece);
  order.id = id;
  pushing.cancelled = std::make_shared<std::atomic<bool>>(false);  // the inner thread reads it
  order.cancelled = pushing.cancelled;
  pushes_.emplace(id, std::move(pushing));
  transport_->post(std::move(order));
}

TransferId Agent::push(const Push& push) {
  const TransferId id = new_transfer();
  try {
    const Ticket ticket = parse_ticket(push.ticket);
    int64_t bytes = 0;
    for (const auto& piece : push.pieces) bytes += std::ssize(piece);
    if (ticket.receiver != push.to) throw Error("transfer ticket: is of another worker");
    if (push.index >= ticket.slots.size())
      throw Error(format("transfer ticket: has {} slabs, not a slab {}", ticket.slots.size(), push.index));
    if (bytes > ticket.slot_bytes)
      throw Error(format("transfer: a slab of {} bytes, expected at most {}", bytes, ticket.slot_bytes));
    if (push.notify.size() > kMaxNotifyBytes)
      throw Error(format(
          "transfer: a notification of {} bytes, expected at most {}", push.notify.size(), kMaxNotifyBytes));
    PushOrder order{.to = push.to,
        .slot = ticket.slots[push.index],
        .pieces = push.pieces,
        .kind = push.kind,
        .notify = std::string(push.notify),
        .cancelled = nullptr};
    start(id, std::move(order), {});
  } catch (const Error& error) {
    fail(id, error.what());
  }
  return id;
}

Agent::Exported Agent::export_slabs(
    std::vector<std::vector<std::span<const std::byte>>> slabs, MemoryKind kind) {
  if (slabs.size() > kMaxSlabsPerReservation)
    throw Error(
        format("transfer: {} slabs to export, expected at most {}", slabs.size(), kMaxSlabsPerReservation));
  const ExportId id{++last_id_};
  const ExportTicket ticket{config_.self, id, random_number(), static_cast<uint32_t>(slabs.size())};
  exports_.emplace(id, Export{ticket.token, std::move(slabs), kind});
  return {id, encode(ticket)};
}

void Agent::unexport(ExportId id) {
  const auto at = exports_.find(id);
  if (at == exports_.end() || at->second.ended) return;
  at->second.ended = true;
  ++at->second.readers;
  end_read(id);
}

void Agent::end_read(ExportId id) {
  const auto at = exports_.find(id);
  if (--at->second.readers > 0 || !at->second.ended) return;
  exports_.erase(at);
  pending_.emplace_back(ExportFreed{id});
}

TransferId Agent::pull(const Pull& pull) {
  const TransferId id = new_transfer();
  try {
    const ExportTicket ticket = parse_export_ticket(pull.exported);
    const auto slot = table_.slot_for_pull(pull.into, pull.into_index);
    if (!slot) throw Error("transfer: the reservation to pull into has no such open slab");
    pulls_.emplace(id, Pulling{pull.from, pull.into, pull.into_index});
    transport_->post(SayOrder{pull.from, PullRequest{id, ticket, pull.index, *slot, config_.slot_bytes}});
  } catch (const Error& error) {
    fail(id, error.what());
  }
  return id;
}

void Agent::cancel(TransferId id) {
  if (const auto at = pushes_.find(id); at != pushes_.end())
    at->second.cancelled->store(true, std::memory_order_relaxed);
  const auto pulling = pulls_.find(id);
  if (pulling == pulls_.end()) return;
  const Pulling& pull = pulling->second;
  if (table_.withdraw(pull.into, pull.into_index)) finish_pull(id, false, 0, "transfer: cancelled");
}

void Agent::take_events(Time now) {
  sink_.box.take_all(taken_);
  for (TransportEvent& event : taken_) std::visit([&](auto& what) { handle(what, now); }, event);
}

void Agent::handle(SlabLanded& event, Time now) {
  if (auto told = table_.landed(event, now)) pending_.push_back(std::move(*told));
}

void Agent::handle(PeerSaid& event, Time) {
  if (const auto* ack = std::get_if<SlabAck>(&event.message))
    finish_push(ack->id, ack->good, ack->checksum, ack->why);
  else if (const auto* answer = std::get_if<PullAnswer>(&event.message)) {
    const auto at = pulls_.find(answer->id);
    if (at != pulls_.end() && at->second.from == event.from)
      finish_pull(answer->id, answer->good, answer->checksum, answer->why);
  } else if (const auto* request = std::get_if<PullRequest>(&event.message))
    answer_pull(event.from, *request);
  // WriteEnded only wakes the owner: collect() looks at the slots.
}

void Agent::handle(PeerGone& event, Time) {
  std::vector<TransferId> lost;
  for (const auto& [id, pull] : pulls_)
    if (pull.from == event.peer) lost.push_back(id);
  for (const TransferId id : lost) finish_pull(id, false, 0, event.why);
  pending_.emplace_back(TransferPeerDown{event.peer, event.why});
}

void Agent::finish_push(TransferId id, bool good, uint64_t checksum, const std::string& why) {
  const auto at = pushes_.find(id);
  if (at == pushes_.end()) return;
  const Pushing pushing = std::move(at->second);
  pushes_.erase(at);
  if (!pushing.exported) {
    pending_.emplace_back(PushDone{id, good, checksum, why});
    return;
  }
  transport_->post(SayOrder{pushing.puller, PullAnswer{pushing.pull_id, good, checksum, why}});
  end_read(*pushing.exported);
}

void Agent::finish_pull(TransferId id, bool good, uint64_t checksum, const std::string& why) {
  if (pulls_.erase(id)) pending_.emplace_back(PushDone{id, good, checksum, why});
}

void Agent::answer_pull(WorkerId puller, const PullRequest& request) {
  const auto refuse = [&](const char* why) {
    transport_->post(SayOrder{puller, PullAnswer{request.id, false, 0, why}});
  };
  const auto at = exports_.find(request.exported.id);
  if (at == exports_.end() || at->second.ended || at->second.token != request.exported.token)
    return refuse("transfer: nothing is exported under this ticket any more");
  Export& exported = at->second;
  if (request.index >= exported.slabs.size()) return refuse("transfer: no such slab is exported");
  const auto& pieces = exported.slabs[request.index];
  int64_t bytes = 0;
  for (const auto& piece : pieces) bytes += std::ssize(piece);
  if (bytes > request.slot_bytes)
    return refuse("transfer: the exported slab is larger than a slot of the receiver");
  ++exported.readers;
  start(new_transfer(),
      {.to = puller,
          .slot = request.into,
          .pieces = pieces,
          .kind = exported.kind,
          .notify = {},
          .cancelled = nullptr},
      {.cancelled = nullptr, .puller = puller, .pull_id = request.id, .exported = request.exported.id});
}

}  // namespace
}  // namespace cheetah::cluster::transfer

namespace cheetah::cluster {

const char* name_of(TransferBackend backend) {
  switch (backend) {
    case TransferBackend::kInProcess:
      return "in-process";
    case TransferBackend::kSharedMemory:
      return "shm";
    case TransferBackend::kUcx:
      return "ucx";
    case TransferBackend::kTcp:
      return "tcp";
  }
  return "";
}

std::optional<TransferBackend> transfer_backend_from_name(std::string_view name) {
  for (const auto backend : {TransferBackend::kInProcess, TransferBackend::kSharedMemory,
           TransferBackend::kUcx, TransferBackend::kTcp})
    if (name == name_of(backend)) return backend;
  return std::nullopt;
}

std::unique_ptr<TransferAgent> make_transfer_agent(const TransferConfig& config) {
  constexpr int64_t kMostBytes = int64_t{1} << 40;
  if (config.slot_bytes <= 0 || config.num_slots <= 0 || config.num_slots > (1 << 20) ||
      config.slot_bytes > kMostBytes / config.num_slots)
    throw Error(format("transfer: {} slots of {} bytes, expected at least one and at most 1 TiB",
        config.num_slots, config.slot_bytes));
  return std::make_unique<transfer::Agent>(config);
}

}  // namespace cheetah::cluster
