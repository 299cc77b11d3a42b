// SPDX-License-Identifier: MIT
#include "cluster/transfer/session_transport.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"

namespace cheetah::cluster::transfer {
namespace {

constexpr Duration kHandshakeLimit = std::chrono::seconds(10);
constexpr size_t kMaxSessions = 1024;  // of a machine; more is an attack or a leak

}  // namespace

SessionTransport::Peer* SessionTransport::find(LinkId link) {
  const auto at = sessions_.find(link);
  return at == sessions_.end() ? nullptr : &at->second;
}

// The oldest usable link, so that everything to one peer goes one way and stays in order.
std::pair<const LinkId, SessionTransport::Peer>* SessionTransport::session_to(WorkerId peer) {
  for (auto& entry : sessions_) {
    const Peer& known = entry.second;
    if (!known.closing && known.id == peer && (known.established || known.initiated)) return &entry;
  }
  return nullptr;
}

bool SessionTransport::established(LinkId link) const {
  const auto at = sessions_.find(link);
  return at != sessions_.end() && at->second.established;
}

WriterNumber SessionTransport::writer_here(LinkId link) const { return sessions_.at(link).writer_here; }

AgentWelcome SessionTransport::own_arena(LinkId) {
  const ArenaView view = arena();
  return {.num_slots = static_cast<uint32_t>(view.words.size()),
      .slot_bytes = view.slot_bytes,
      .kind = view.kind};
}

SessionTransport::Peer SessionTransport::make_peer(std::optional<WorkerId> wanted) const {
  Peer peer{.session = Session({.self = config_.self,
                .credentials = config_.credentials,
                .dials = wanted.has_value(),
                .expected = wanted,
                .purpose = "cheetah-pages"})};
  peer.id = wanted.value_or(WorkerId{});
  peer.initiated = wanted.has_value();
  peer.give_up_at = std::chrono::steady_clock::now() + kHandshakeLimit;
  return peer;
}

void SessionTransport::accepted(LinkId link) {
  sessions_.emplace(link, make_peer(std::nullopt));
  if (sessions_.size() <= kMaxSessions) return;
  // The peer that has been silent for longest gives way, so that strangers do not keep peers out.
  const auto silent = std::ranges::find_if(
      sessions_, [](const auto& entry) { return !entry.second.is_known() && !entry.second.closing; });
  fail_link(silent->first, format("more than {} transfer peers", kMaxSessions));
}

void SessionTransport::connect(const ConnectOrder& order) {
  if (session_to(order.peer)) return;
  try {
    const LinkId link = open_link(order.address);
    Peer& peer = sessions_.emplace(link, make_peer(order.peer)).first->second;
    carry(link, peer.session.opening(), false);
  } catch (const Error& error) {
    sink_.post(PeerGone{order.peer, error.what()});
  }
}

void SessionTransport::drop(WorkerId peer, const std::string& why) {
  std::vector<LinkId> links;
  for (const auto& [link, known] : sessions_)
    if (known.id == peer && known.is_known()) links.push_back(link);
  if (links.empty()) sink_.post(PeerGone{peer, why});
  for (const LinkId link : links) fail_link(link, why);
}

void SessionTransport::fail_link(LinkId link, const std::string& why) {
  Peer* session = find(link);
  if (!session || session->closing) return;
  session->closing = true;
  session->why = why;
  close_link(link);
}

void SessionTransport::closed(LinkId link, const std::string& why) {
  const auto at = sessions_.find(link);
  if (at == sessions_.end()) return;
  const Peer session = std::move(at->second);
  sessions_.erase(at);
  const std::string reason = session.why.empty() ? why : session.why;
  if (session.writer_here != kSelf) {
    arena().words.forget_writer(session.writer_here);
    free_writers_.push_back(session.writer_here);
  }
  for (const TransferId id : session.unanswered) sink_.post(PushEnded{id, reason});
  for (const TransportOrder& order : session.waiting)
    if (const auto* push = std::get_if<PushOrder>(&order)) sink_.post(PushEnded{push->id, reason});
  if (!session.is_known()) return;  // a stranger
  // One peer, one fate: the owner hears of it once, when its last link has gone.
  const WorkerId peer = session.id;
  bool others = false;
  for (auto& [other, rest] : sessions_) others |= rest.id == peer;
  if (others) return drop(peer, reason);
  sink_.post(PeerGone{peer, reason});
}

void SessionTransport::give_up_on_silent_peers(Time now) {
  std::vector<LinkId> silent;
  for (const auto& [link, session] : sessions_)
    if (!session.established && !session.closing && now >= session.give_up_at) silent.push_back(link);
  for (const LinkId link : silent) fail_link(link, "transfer peer: did not finish the handshake in time");
}

void SessionTransport::obey(TransportOrder& order) {
  if (const auto* connecting = std::get_if<ConnectOrder>(&order)) return connect(*connecting);
  if (const auto* dropping = std::get_if<DropOrder>(&order))
    return drop(dropping->peer, "dropped by this worker");
  if (const auto* region = std::get_if<RegisterOrder>(&order)) return remember_memory(*region);
  if (const auto* region = std::get_if<UnregisterOrder>(&order)) return forget_memory(region->handle);
  if (const auto* checked = std::get_if<AnswerOrder>(&order)) return answer(*checked);
  const auto* push = std::get_if<PushOrder>(&order);
  const WorkerId to = push ? push->to : std::get<SayOrder>(order).to;
  if (auto* entry = session_to(to)) return send(entry->first, entry->second, std::move(order));
  if (push) sink_.post(PushEnded{push->id, "transfer: the peer is not connected"});
}

void SessionTransport::say(LinkId link, const AgentMessage& message) {
  carry(link, sessions_.at(link).session.seal(PacketType::kMessage, encode(message)), false);
}

// False: that is done beside, and the order comes again.
bool SessionTransport::seal(Peer& peer, PushOrder& push) {
  if (!seals_slabs() || push.kind != MemoryKind::kHost) return true;
  if (push.sealed && push.keys == peer.keys) return true;
  push.keys = peer.keys;
  push.sealed.reset();
  if (push.bytes >= kDoneBeside) {
    beside_.post(std::move(push));
    return false;
  }
  push.sealed = seal_slab(push, *push.keys);
  return true;
}

void SessionTransport::send(LinkId link, Peer& peer, TransportOrder order) {
  if (!peer.established) {
    peer.waiting.push_back(std::move(order));
    return;
  }
  if (const auto* text = std::get_if<SayOrder>(&order)) return say(link, text->message);
  auto& push = std::get<PushOrder>(order);
  if (push.cancelled->load(std::memory_order_relaxed)) {
    sink_.post(PushEnded{push.id, "transfer: cancelled"});
    return;
  }
  if (!seal(peer, push)) return;
  peer.unanswered.insert(push.id);
  std::string why;
  if (!transmit(link, push, peer.writer_there, why)) push_failed(link, push.id, why);
}

void SessionTransport::push_failed(LinkId link, TransferId id, const std::string& why) {
  Peer* session = find(link);
  if (session && session->unanswered.erase(id)) sink_.post(PushEnded{id, why});
}

void SessionTransport::heard(LinkId link, std::string_view bytes) {
  Peer* peer = find(link);
  if (!peer || peer->closing) return;
  std::string reply;
  std::vector<Packet> packets;
  try {
    peer->session.receive(bytes, reply, packets);
    if (!reply.empty()) carry(link, std::move(reply), false);
    if (peer->session.established() && !peer->greeted) greet(link, *peer);
    for (const Packet& packet : packets)
      if (!peer->closing) handle(link, *peer, parse_agent_message(packet.payload));
  } catch (const Error& error) {
    if (!peer->session.established()) carry(link, peer->session.refusal(error.what()), false);
    fail_link(link, format("transfer peer: {}", error.what()));
  }
}

void SessionTransport::greet(LinkId link, Peer& peer) {
  if (free_writers_.empty()) {
    if (last_writer_ == UINT16_MAX) throw Error("too many connections at once");
    free_writers_.push_back(++last_writer_);
  }
  peer.writer_here = free_writers_.back();
  free_writers_.pop_back();
  peer.id = *peer.session.peer();
  peer.greeted = true;
  if (seals_slabs()) peer.keys = std::make_shared<PageKeys>(peer.session, peer.initiated);
  AgentWelcome welcome = own_arena(link);
  welcome.writer = peer.writer_here;
  carry(link, peer.session.seal(PacketType::kMessage, encode(AgentMessage(welcome))), true);
}

void SessionTransport::learn(LinkId link, Peer& peer, const AgentWelcome& welcome) {
  learn_arena(link, welcome);
  peer.writer_there = welcome.writer;
  peer.established = true;
  while (!peer.waiting.empty() && !peer.closing) {
    TransportOrder order = std::move(peer.waiting.front());
    peer.waiting.pop_front();
    send(link, peer, std::move(order));
  }
}

void SessionTransport::handle(LinkId link, Peer& peer, const AgentMessage& message) {
  if (const auto* welcome = std::get_if<AgentWelcome>(&message); welcome && !peer.established)
    return learn(link, peer, *welcome);
  if (!peer.established) throw Error("said something before its welcome");
  const WorkerId from = peer.id;
  const auto* notice = std::get_if<SlabNotice>(&message);
  if (notice && !seals_slabs()) return landed(link, *notice);
  if (const auto* ack = std::get_if<SlabAck>(&message)) {
    if (!peer.unanswered.erase(ack->id)) return;  // answered before: nothing new in it
    sink_.post(PeerSaid{from, message});
    return;
  }
  if (std::holds_alternative<PullRequest>(message) || std::holds_alternative<PullAnswer>(message) ||
      std::holds_alternative<WriteEnded>(message)) {
    sink_.post(PeerSaid{from, message});
    return;
  }
  throw Error("sent a message out of turn");
}

void SessionTransport::landed(LinkId link, const SlabNotice& notice, const SlabSeal& seal) {
  Peer* session = find(link);
  if (!session) return;
  const ArenaView view = arena();
  if (notice.slot >= view.words.size() || notice.bytes > view.slot_bytes ||
      !view.words.begin_check(notice.slot, notice.generation, session->writer_here))
    return refuse(link, notice, why_not(WriteResult::kUnwanted));
  Landed slab{link, session->id, notice, view, seal};
  if (notice.bytes < kDoneBeside)
    answer(check(slab));
  else
    beside_.post(std::move(slab));
}

AnswerOrder SessionTransport::check(Landed& slab) {
  const bool good =
      slab.seal.keys ? open_slab(slab.seal, slab.notice, slab.arena) : is_intact(slab.notice, slab.arena);
  AnswerOrder order{slab.link, slab.notice, good, false};
  order.wanted = slab.arena.words.finish_check(slab.notice.slot, slab.notice.generation, order.good);
  // The owner first: a peer that hears from the sender of the slab finds it there.
  if (order.wanted) sink_.post(SlabLanded{slab.from, std::move(slab.notice), order.good});
  return order;
}

void SessionTransport::work_beside() {
  std::vector<std::variant<Landed, PushOrder>> work;
  while (beside_.wait()) {
    beside_.take_all(work);
    for (auto& one : work) {
      if (beside_.closed()) return;  // what is sent may be gone
      if (auto* slab = std::get_if<Landed>(&one)) {
        post(check(*slab));
        continue;
      }
      auto& order = std::get<PushOrder>(one);
      if (!order.cancelled->load(std::memory_order_relaxed)) order.sealed = seal_slab(order, *order.keys);
      post(std::move(order));
    }
  }
}

void SessionTransport::stop_work_beside() {
  beside_.close();
  beside_thread_.join();
}

void SessionTransport::answer(const AnswerOrder& order) {
  const Peer* session = find(order.link);
  if (!session) return;
  if (!order.wanted) return refuse(order.link, order.notice, why_not(WriteResult::kUnwanted));
  SlabAck ack{order.notice.id, order.good, order.notice.checksum, {}};
  if (!order.good) ack.why = "transfer: the slab's checksum is wrong";
  if (!session->closing) say(order.link, ack);
}

void SessionTransport::refuse(LinkId link, const SlabNotice& notice, const std::string& why) {
  Peer* session = find(link);
  if (!session) return;
  sink_.post(PeerSaid{session->id, WriteEnded{notice.slot, notice.generation}});
  if (!session->closing) say(link, SlabAck{notice.id, false, 0, why});
}

}  // namespace cheetah::cluster::transfer
