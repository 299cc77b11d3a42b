// SPDX-License-Identifier: MIT
#pragma once
// Pages between the engine and other workers: does what the core asks for on the engine's pages and the
// transfer agent. Belongs to the node's thread.
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "cluster/core/worker_ports.h"
#include "cluster/node/background_thread.h"
#include "cluster/node/engine_adapter.h"
#include "cluster/node/node_loop.h"
#include "cluster/transfer/page_slab.h"
#include "cluster/transfer/transfer.h"

namespace cheetah::cluster {

// Bytes a second while something was on its way: the mean over about the last ten slabs, by their bytes.
class TransferRate {
 public:
  void add(int64_t bytes, Time began, Time ended);
  double bytes_per_s() const { return seconds_ > 0 ? bytes_ / seconds_ : 0; }

 private:
  double bytes_ = 0, seconds_ = 0;
  Time last_{};
};

class KvAdapter {
 public:
  struct Setting {
    Engine& engine;
    TransferAgent& transfer;
    NodeLoop& loop;
    BackgroundThread& background;
    KvDescriptor kv;
    FeedWorker feed;
  };
  explicit KvAdapter(Setting setting);
  ~KvAdapter();
  KvAdapter(const KvAdapter&) = delete;
  KvAdapter& operator=(const KvAdapter&) = delete;

  // Receiving.
  void execute(LookUpCache& look);
  void execute(const ReserveSpace& reserve);
  void execute(ImportSlab& import);
  void execute(const Unpin& unpin);
  void execute(const Quarantine& quarantine);
  void execute(const FenceReservation& fence);
  void execute(const FreeReservation& free);
  // Sending.
  void execute(StartExport& start);
  void execute(const PostSlab& post);
  void execute(const FenceWrites& fence);
  void execute(const ReleaseExport& release);

  void poll(Time now);
  void peer_lost(WorkerId peer);

  struct Numbers {
    int64_t slabs_sent = 0, slabs_failed = 0, bytes_sent = 0, slabs_received = 0, bytes_received = 0,
            slabs_damaged = 0, stalls = 0, slabs_changed = 0;
    double send_seconds = 0;
    double bytes_per_s = 0;  // at which slabs went out lately; 0: none has
  };
  const Numbers& numbers() const { return numbers_; }

 private:
  // A slab on its way out. Its bytes stay until the transport has ended with them.
  struct Sending {
    RequestKey key;
    PostSlab post;
    std::vector<std::byte> bytes;
    std::vector<std::byte> source;  // our own pages, where they change on the way
    Time started{}, pushed{};
  };
  struct Export {
    RequestId id{};
    std::unique_ptr<KvExport> pages;
    int64_t open = 0;  // slabs not answered
    bool fencing = false;
  };
  // A slab that the engine shall take: read where it landed, or changed into our own pages.
  struct Arriving {
    ImportSlab import;
    Time landed{};
    SlabView view;
    std::vector<std::byte> pages;
  };
  void try_reserve();
  void begin_export(StartExport& start);
  std::string why_not(const ImportSlab& import, const SlabHeader& header) const;
  void change(const std::shared_ptr<Arriving>& slab);
  void to_engine(const std::shared_ptr<Arriving>& slab, std::span<const std::byte> pages);
  void imported(const Arriving& slab, const std::string& why_not);
  void refuse(const ImportSlab& import, const std::string& why);
  void read_and_push(const std::shared_ptr<Sending>& sending);
  void change_and_push(const std::shared_ptr<Sending>& sending, const SlabWriter& writer);
  void push(const std::shared_ptr<Sending>& sending, const std::string& why_not);
  void answer(const Sending& sending, bool sent, uint64_t checksum, const std::string& why);
  void on(const SlabArrived& arrived);
  void on(const SlabDamaged& damaged);
  void on(const ReservationStalled& stalled);
  void on(const ReservationFreed& freed);
  void on(const PushDone& done);
  void on(const ExportFreed&) {}
  void on(const TransferPeerDown&) {}
  int64_t pages_of(int64_t tokens) const { return tokens / setting_.kv.page_tokens; }

  Setting setting_;
  std::deque<ReserveSpace> wait_for_space_;
  std::map<std::pair<ReservationId, uint32_t>, Time> landed_;  // slabs that are here
  std::set<ReservationId> fences_;                             // answered when freed
  std::map<RequestKey, Export> exports_;
  std::map<TransferId, std::shared_ptr<Sending>> pushes_;  // shared with the engine's thread while it reads
  std::vector<TransferEvent> events_;
  TransferRate rate_;
  Numbers numbers_;
};

// One place of a text is one page here, whatever its groups of layers.
KvDescriptor describe_pages(const KvFormat& format, std::string model);

// The `memory` of a job: how to reach our agent, and the ticket.
std::string pack_memory(const std::string& description, const std::string& ticket);
struct UnpackedMemory {
  std::string_view description, ticket;
};
UnpackedMemory unpack_memory(std::string_view memory);  // throws Error

}  // namespace cheetah::cluster
