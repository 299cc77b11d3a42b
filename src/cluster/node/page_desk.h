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

#include "cluster/core/ports.h"
#include "cluster/node/engine_desk.h"
#include "cluster/node/node_loop.h"
#include "cluster/transfer/transfer.h"

namespace cheetah::cluster {

class PageDesk {
 public:
  struct Setting {
    Engine& engine;
    TransferAgent& transfer;
    NodeLoop& loop;
    KvDescriptor kv;
    FeedWorker feed;
  };
  explicit PageDesk(Setting setting);
  ~PageDesk();
  PageDesk(const PageDesk&) = delete;
  PageDesk& operator=(const PageDesk&) = delete;

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
            slabs_damaged = 0, stalls = 0;
    double send_seconds = 0;
  };
  const Numbers& numbers() const { return numbers_; }

 private:
  // A slab on its way out. Its bytes stay until the transport has ended with them.
  struct Sending {
    RequestKey key;
    PostSlab post;
    std::vector<std::byte> bytes;
    Time started{};
  };
  struct Export {
    RequestId id{};
    std::unique_ptr<KvExport> pages;
    int64_t open = 0;  // slabs not answered
    bool fencing = false;
  };
  void try_reserve();
  void push(const std::shared_ptr<Sending>& sending, bool read);
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
  std::map<ReservationId, int64_t> receiving_;  // where the text that its pages were computed in ends
  std::set<ReservationId> fences_;              // answered when freed
  std::map<RequestKey, Export> exports_;
  std::map<TransferId, std::shared_ptr<Sending>> pushes_;  // shared with the engine's thread while it reads
  std::vector<TransferEvent> events_;
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
