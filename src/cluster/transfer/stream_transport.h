// SPDX-License-Identifier: MIT
#pragma once
// Processes of one or many machines over TCP: sessions (TLS 1.3) and, in pieces of their own, sealed slabs,
// which are received straight into their slots. A piece is its kind (one byte), its length (32 bits) and that
// many bytes; a slab's piece is its header, and as many bytes as its notice says follow.
#include <poll.h>

#include <map>
#include <optional>
#include <thread>

#include "cluster/transfer/heap_arena.h"
#include "cluster/transfer/session_transport.h"
#include "cluster/transfer/stream_socket.h"

namespace cheetah::cluster::transfer {

// A class below may move slabs another way; it calls start() last in its constructor and stop() first in its
// destructor.
class StreamTransport : public SessionTransport {
 public:
  StreamTransport(const TransferConfig& config, EventSink& sink);

  std::string address() const override { return listener_.address(); }
  ArenaView arena() const override { return arena_view_; }
  void post(TransportOrder order) override;

 protected:
  void start() {
    thread_ = std::thread([this] { loop(); });
  }
  void stop();

  bool seals_slabs() const override { return true; }
  bool transmit(LinkId link, PushOrder& order, WriterNumber writer, std::string& why) override;

  // ---- For a class that moves slabs another way ----
  virtual bool progress() { return false; }      // true: something happened
  virtual int more_to_wait_for() { return -1; }  // a descriptor; -2: there is something to do now
  virtual void begin_close(LinkId) {}
  virtual bool may_close(LinkId) { return true; }  // nothing can land through it any more

  OpenedNotice opened(LinkId link, std::string_view header) const;  // throws Error
  bool begin_slab(LinkId link, const OpenedNotice& slab);           // false: it has no slot, and is refused
  void end_slab(LinkId link, const OpenedNotice& slab, const std::string& failure = {});

 private:
  struct Arriving {
    OpenedNotice slab;
    std::byte* to = nullptr;  // nullptr: it is refused, and read over
    int64_t left = 0;
  };
  struct Link {
    StreamLink socket;
    std::string heard = {};  // of a piece that has not all come
    std::optional<Arriving> arriving = {};
    bool failed = false;
    bool closing = false;
    std::string why = "transfer peer: closed the connection or died";
  };

  LinkId open_link(const std::string& address) override;
  void carry(LinkId link, std::string bytes, bool with_arena) override;
  void close_link(LinkId link) override { links_.at(link).failed = true; }
  void learn_arena(LinkId, const AgentWelcome&) override {}

  void loop();
  void wait(bool busy);
  void accept_one();
  void serve(LinkId id, Link& link);
  void take(LinkId id, Link& link);
  bool take_piece(LinkId id, Link& link, std::string_view& rest);
  void take_header(LinkId id, Link& link, std::string_view header);
  void take_slab(LinkId id, Link& link, size_t bytes);
  void close_failed();
  void wake_up() const;

  HeapArena arena_;
  ArenaView arena_view_;
  StreamListener listener_;
  UniqueFd wake_;
  Mailbox<TransportOrder> orders_;
  std::map<LinkId, Link> links_;
  std::vector<std::byte> buffer_;
  std::vector<pollfd> waits_;
  std::vector<LinkId> waiting_for_;  // of waits_, from the third on
  std::thread thread_;
};

}  // namespace cheetah::cluster::transfer
