// SPDX-License-Identifier: MIT
#pragma once
// What all transports share: who is connected, whether it has proved what it is, what waits for it and what
// it has not answered yet. A transport below it only opens links, carries bytes and says when a link is gone.
#include <deque>
#include <map>
#include <set>
#include <string>
#include <thread>

#include "cluster/net/session.h"
#include "cluster/transfer/sealed_slab.h"
#include "cluster/transfer/slot_copy.h"
#include "cluster/transfer/transport.h"

namespace cheetah::cluster::transfer {

constexpr int64_t kDoneBeside = 256 << 10;  // a smaller slab is sealed sooner than another thread wakes

// All but the constructor runs on the transport's inner thread. No link lives long without proof, and one
// peer's mistakes close its links and nothing else.
class SessionTransport : public Transport {
 public:
  SessionTransport(const TransferConfig& config, EventSink& sink)
      : config_(config), sink_(sink), beside_thread_([this] { work_beside(); }) {}
  ~SessionTransport() override {
    if (beside_thread_.joinable()) stop_work_beside();  // a constructor below failed
  }

 protected:
  // ---- What a transport below implements; none of these may call closed(): that waits for the loop ----
  virtual LinkId open_link(const std::string& address) = 0;  // throws Error
  // Bytes of the session, in order. `with_arena`: the arena's descriptor goes along where there is one.
  virtual void carry(LinkId link, std::string bytes, bool with_arena) = 0;
  // Ends what we send. closed() must follow when nothing can land through it any more.
  virtual void close_link(LinkId link) = 0;
  virtual AgentWelcome own_arena(LinkId link);
  virtual void learn_arena(LinkId link, const AgentWelcome& theirs) = 0;  // throws Error
  // Brings the slab there; the notice must reach the peer when it is all there. False with `why` when it
  // ended without.
  // With seals_slabs() the order comes sealed, where it is in the host's memory.
  virtual bool transmit(LinkId link, PushOrder& order, WriterNumber writer, std::string& why) = 0;
  virtual bool seals_slabs() const { return false; }  // they cross a network
  virtual void remember_memory(const RegisterOrder&) {}
  virtual void forget_memory(MemoryHandle) {}

  // ---- What a transport below calls ----
  LinkId next_link() { return LinkId{++last_link_}; }
  void accepted(LinkId link);
  void heard(LinkId link, std::string_view bytes);
  void closed(LinkId link, const std::string& why);
  void obey(TransportOrder& order);
  void give_up_on_silent_peers(Time now);
  // Has it opened and checked, answers and tells the owner.
  void landed(LinkId link, const SlabNotice& notice, const SlabSeal& seal = {});
  void say(LinkId link, const AgentMessage& message);
  void stop_work_beside();  // first thing in the destructor below: that thread posts orders
  void refuse(LinkId link, const SlabNotice& notice, const std::string& why);
  void push_failed(LinkId link, TransferId id, const std::string& why);
  bool established(LinkId link) const;
  WriterNumber writer_here(LinkId link) const;
  std::shared_ptr<PageKeys> keys_of(LinkId link) const { return sessions_.at(link).keys; }
  void fail_link(LinkId link, const std::string& why);  // says why at closed()

  const TransferConfig config_;
  EventSink& sink_;

 private:
  struct Peer {
    Session session;
    WorkerId id{};  // wanted, or as the session has it
    Time give_up_at{};
    bool initiated = false;
    bool greeted = false;      // the session is open and our welcome is sent
    bool established = false;  // both welcomes are said and heard
    bool closing = false;
    std::string why = {};
    WriterNumber writer_here = 0, writer_there = 0;
    std::shared_ptr<PageKeys> keys = nullptr;  // shared with slabs that are sealed or opened
    std::deque<TransportOrder> waiting = {};   // until it is established
    std::set<TransferId> unanswered = {};

    bool is_known() const { return initiated || greeted; }
  };
  Peer make_peer(std::optional<WorkerId> wanted) const;
  Peer* find(LinkId link);
  std::pair<const LinkId, Peer>* session_to(WorkerId peer);
  void connect(const ConnectOrder& order);
  void drop(WorkerId peer, const std::string& why);
  void send(LinkId link, Peer& peer, TransportOrder order);
  bool seal(Peer& peer, PushOrder& push);
  void handle(LinkId link, Peer& peer, const AgentMessage& message);
  void learn(LinkId link, Peer& peer, const AgentWelcome& welcome);
  void greet(LinkId link, Peer& peer);

  std::map<LinkId, Peer> sessions_;
  uint64_t last_link_ = 0;
  WriterNumber last_writer_ = 0;
  std::vector<WriterNumber> free_writers_;  // of connections that are gone

  // Sealing, opening and summing take longer than the copy, so those of large slabs are made beside it.
  struct Landed {
    LinkId link{};
    WorkerId from{};
    SlabNotice notice;
    ArenaView arena;
    SlabSeal seal;
  };
  void work_beside();
  AnswerOrder check(Landed& slab);
  void answer(const AnswerOrder& order);
  Mailbox<std::variant<Landed, PushOrder>> beside_;
  std::thread beside_thread_;
};

}  // namespace cheetah::cluster::transfer
