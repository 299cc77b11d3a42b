// SPDX-License-Identifier: MIT
// Agents of one process: links are mailboxes, and slabs are copied straight into the peer's arena.
#include <charconv>
#include <thread>

#include "base/error.h"
#include "base/published.h"
#include "cluster/transfer/heap_arena.h"
#include "cluster/transfer/session_transport.h"

namespace cheetah::cluster::transfer {
namespace {

struct Inlet;
struct LinkOpened {
  LinkId link{};
  std::shared_ptr<Inlet> other;
};
struct LinkBytes {
  LinkId link{};
  std::string bytes;
};
struct LinkClosed {
  LinkId link{};
};
struct Leave {};
using Item = std::variant<TransportOrder, LinkOpened, LinkBytes, LinkClosed, Leave>;

// Shared by its agent and by peers with a link to it: a peer may still be copying when the agent goes.
struct Inlet {
  Inlet(int64_t num_slots, int64_t slot_bytes) : arena(num_slots, slot_bytes) {}
  Mailbox<Item> box;
  HeapArena arena;
};

}  // namespace
}  // namespace cheetah::cluster::transfer

namespace cheetah::cluster {

class InProcessFabric {
 public:
  using Inlet = transfer::Inlet;
  using LinkId = transfer::LinkId;
  void put(WorkerId worker, std::shared_ptr<Inlet> inlet) {
    inlets_.with([&](auto& map) { map[worker] = std::move(inlet); });
  }
  void remove(WorkerId worker, const Inlet* inlet) {
    inlets_.with([&](auto& map) {
      if (const auto at = map.find(worker); at != map.end() && at->second.get() == inlet) map.erase(at);
    });
  }
  std::shared_ptr<Inlet> find(WorkerId worker) {
    return inlets_.with([&](auto& map) {
      const auto at = map.find(worker);
      return at == map.end() ? nullptr : at->second;
    });
  }
  LinkId new_link() { return LinkId{++last_link_}; }

 private:
  Published<std::map<WorkerId, std::shared_ptr<Inlet>>> inlets_;
  std::atomic<uint64_t> last_link_{0};
};

std::shared_ptr<InProcessFabric> make_in_process_fabric() { return std::make_shared<InProcessFabric>(); }

}  // namespace cheetah::cluster

namespace cheetah::cluster::transfer {

namespace {

class InProcessTransport final : public SessionTransport {
 public:
  InProcessTransport(const TransferConfig& config, EventSink& sink)
      : SessionTransport(config, sink),
        fabric_(config.fabric),
        inlet_(std::make_shared<Inlet>(config.num_slots, config.slot_bytes)) {
    if (!fabric_)
      throw Error("transfer: agents of one process need a fabric, expected TransferConfig::fabric");
    fabric_->put(config.self, inlet_);
    thread_ = std::thread([this] { loop(); });
  }
  ~InProcessTransport() override {
    stop_work_beside();
    fabric_->remove(config_.self, inlet_.get());
    inlet_->box.post(Leave{});
    thread_.join();
  }

  std::string address() const override { return std::to_string(static_cast<uint64_t>(config_.self)); }
  ArenaView arena() const override { return inlet_->arena.view(); }
  void post(TransportOrder order) override { inlet_->box.post(std::move(order)); }

 private:
  LinkId open_link(const std::string& address) override {
    uint64_t worker = 0;
    std::from_chars(address.data(), address.data() + address.size(), worker);
    const auto other = fabric_->find(WorkerId{worker});
    const LinkId link = fabric_->new_link();
    if (!other || !other->box.post(LinkOpened{link, inlet_}))
      throw Error("transfer peer: has left this process");
    others_[link] = other;
    return link;
  }
  void carry(LinkId link, std::string bytes, bool) override { send(link, LinkBytes{link, std::move(bytes)}); }
  void close_link(LinkId link) override { send(link, LinkClosed{link}); }
  void learn_arena(LinkId, const AgentWelcome&) override {}  // its inlet has it
  bool transmit(LinkId link, PushOrder& order, WriterNumber writer, std::string& why) override {
    const Written written = write_slab(order, others_.at(link)->arena.view(), writer, config_.midway);
    if (written.result == WriteResult::kLanded) {
      say(link, SlabNotice{order.id, order.slot.slot, order.slot.generation, order.bytes, written.checksum,
                    order.notify});
      return true;
    }
    if (written.result != WriteResult::kRefused)
      say(link, WriteEnded{order.slot.slot, order.slot.generation});
    why = why_not(written.result);
    return false;
  }
  void send(LinkId link, Item item) {
    if (!others_.at(link)->box.post(std::move(item))) lost_.push_back(link);
  }

  void loop() {
    std::vector<Item> items;
    for (bool leaving = false; !leaving;) {
      const Time now = std::chrono::steady_clock::now();
      inlet_->box.wait_until(now + std::chrono::seconds(1));
      inlet_->box.take_all(items);
      for (Item& item : items) leaving |= handle(item);
      for (const LinkId link : std::exchange(lost_, {})) end(link, "transfer peer: has left this process");
      give_up_on_silent_peers(now);
    }
    inlet_->box.close();
    for (const auto& [link, other] : others_) other->box.post(LinkClosed{link});
  }
  bool handle(Item& item) {
    if (auto* order = std::get_if<TransportOrder>(&item)) {
      obey(*order);
    } else if (auto* opened = std::get_if<LinkOpened>(&item)) {
      others_[opened->link] = opened->other;
      accepted(opened->link);
    } else if (const auto* bytes = std::get_if<LinkBytes>(&item)) {
      heard(bytes->link, bytes->bytes);
    } else if (const auto* gone = std::get_if<LinkClosed>(&item)) {
      if (const auto at = others_.find(gone->link); at != others_.end())
        at->second->box.post(LinkClosed{gone->link});
      end(gone->link, "transfer peer: closed the connection");
    }
    return std::holds_alternative<Leave>(item);
  }
  void end(LinkId link, const std::string& why) {
    if (others_.erase(link)) closed(link, why);
  }

  std::shared_ptr<InProcessFabric> fabric_;
  std::shared_ptr<Inlet> inlet_;
  std::map<LinkId, std::shared_ptr<Inlet>> others_;
  std::vector<LinkId> lost_;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<Transport> make_in_process_transport(const TransferConfig& config, EventSink& sink) {
  return std::make_unique<InProcessTransport>(config, sink);
}

}  // namespace cheetah::cluster::transfer
