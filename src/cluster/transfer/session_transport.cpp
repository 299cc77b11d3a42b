#include "cluster/transfer/session_transport.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"

namespace cheetah::cluster::transfer {
namespace {

constexpr Duration kHandshakeLimit = std::chrono::seconds(10);
constexpr size_t kMaxSessions = 1024;  // of a machine; more is an attack or a leak

}  // namespace

SessionTransport::Session* SessionTransport::find(LinkId link) {
  const auto at = sessions_.find(link);
  return at == sessions_.end() ? nullptr : &at->second;
}

// The oldest usable link, so that everything to one peer goes one way and stays in order.
std::pair<const LinkId, SessionTransport::Session>* SessionTransport::session_to(WorkerId peer) {
  for (auto& entry : sessions_) {
    const Session& session = entry.second;
    if (!session.closing && session.handshake.peer() == peer && (session.established || session.initiated))
      return &entry;
  }
  return nullptr;
}

bool SessionTransport::established(LinkId link) const {
  const auto at = sessions_.find(link);
  return at != sessions_.end() && at->second.established;
}

WriterNumber SessionTransport::writer_here(LinkId link) const { return sessions_.at(link).writer_here; }

AgentWelcome SessionTransport::own_arena() const {
  const ArenaView view = arena();
  return {.num_slots = static_cast<uint32_t>(view.words.size()),
          .slot_bytes = view.slot_bytes,
          .kind = view.kind};
}

void SessionTransport::accepted(LinkId link) {
  Session session{.handshake = Handshake::listening(config_.self, handshake_setup(address()))};
  session.give_up_at = std::chrono::steady_clock::now() + kHandshakeLimit;
  sessions_.emplace(link, std::move(session));
  if (sessions_.size() > kMaxSessions) fail_link(link, format("more than {} transfer peers", kMaxSessions));
}

void SessionTransport::connect(const ConnectOrder& order) {
  if (session_to(order.peer)) return;
  try {
    const LinkId link = open_link(order.address);
    Session session{.handshake =
                        Handshake::connecting(config_.self, order.peer, handshake_setup(order.address))};
    session.give_up_at = std::chrono::steady_clock::now() + kHandshakeLimit;
    session.initiated = true;
    const AgentMessage hello = *session.handshake.first();
    sessions_.emplace(link, std::move(session));
    say(link, hello);
  } catch (const Error& error) {
    sink_.post(PeerGone{order.peer, error.what()});
  }
}

void SessionTransport::drop(WorkerId peer, const std::string& why) {
  std::vector<LinkId> links;
  for (const auto& [link, session] : sessions_)
    if (session.handshake.peer() == peer && (session.initiated || session.handshake.authenticated()))
      links.push_back(link);
  if (links.empty()) sink_.post(PeerGone{peer, why});
  for (const LinkId link : links) fail_link(link, why);
}

void SessionTransport::fail_link(LinkId link, const std::string& why) {
  Session* session = find(link);
  if (!session || session->closing) return;
  session->closing = true;
  session->why = why;
  close_link(link);
}

void SessionTransport::closed(LinkId link, const std::string& why) {
  const auto at = sessions_.find(link);
  if (at == sessions_.end()) return;
  const Session session = std::move(at->second);
  sessions_.erase(at);
  const std::string reason = session.why.empty() ? why : session.why;
  if (session.writer_here != kSelf) {
    arena().words.forget_writer(session.writer_here);
    free_writers_.push_back(session.writer_here);
  }
  for (const TransferId id : session.unanswered) sink_.post(PushEnded{id, reason});
  for (const TransportOrder& order : session.waiting)
    if (const auto* push = std::get_if<PushOrder>(&order)) sink_.post(PushEnded{push->id, reason});
  if (!session.initiated && !session.handshake.authenticated()) return;  // a stranger
  // One peer, one fate: the owner hears of it once, when its last link has gone.
  const WorkerId peer = session.handshake.peer();
  bool others = false;
  for (auto& [other, rest] : sessions_) others |= rest.handshake.peer() == peer;
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

void SessionTransport::send(LinkId link, Session& session, TransportOrder order) {
  if (!session.established) {
    session.waiting.push_back(std::move(order));
    return;
  }
  if (const auto* text = std::get_if<SayOrder>(&order)) return say(link, text->message);
  auto& push = std::get<PushOrder>(order);
  if (push.cancelled->load(std::memory_order_relaxed)) {
    sink_.post(PushEnded{push.id, "transfer: cancelled"});
    return;
  }
  session.unanswered.insert(push.id);
  std::string why;
  if (!transmit(link, push, session.writer_there, why)) push_failed(link, push.id, why);
}

void SessionTransport::push_failed(LinkId link, TransferId id, const std::string& why) {
  Session* session = find(link);
  if (session && session->unanswered.erase(id)) sink_.post(PushEnded{id, why});
}

void SessionTransport::heard(LinkId link, std::string_view bytes) {
  Session* session = find(link);
  if (!session || session->closing) return;
  try {
    handle(link, *session, parse_agent_message(bytes));
  } catch (const Error& error) {
    fail_link(link, error.what());
  }
}

void SessionTransport::say_welcome(LinkId link, Session& session) {
  if (free_writers_.empty()) {
    if (last_writer_ == UINT16_MAX) throw Error("transfer: too many connections at once");
    free_writers_.push_back(++last_writer_);
  }
  session.writer_here = free_writers_.back();
  free_writers_.pop_back();
  AgentWelcome welcome = own_arena();
  welcome.writer = session.writer_here;
  say(link, welcome);
}

void SessionTransport::advance(LinkId link, Session& session, const AgentMessage& message) {
  if (const auto* welcome = std::get_if<AgentWelcome>(&message);
      welcome && session.handshake.authenticated() && !session.established) {
    learn_arena(link, *welcome);
    session.writer_there = welcome->writer;
    session.established = true;
    while (!session.waiting.empty() && !session.closing) {
      TransportOrder order = std::move(session.waiting.front());
      session.waiting.pop_front();
      send(link, session, std::move(order));
    }
    return;
  }
  if (const auto answer = session.handshake.handle(message)) say(link, *answer);
  if (session.handshake.authenticated()) say_welcome(link, session);
}

void SessionTransport::handle(LinkId link, Session& session, const AgentMessage& message) {
  if (!session.established) return advance(link, session, message);
  const WorkerId from = session.handshake.peer();
  if (const auto* notice = std::get_if<SlabNotice>(&message)) return landed(link, *notice);
  if (const auto* ack = std::get_if<SlabAck>(&message)) {
    if (!session.unanswered.erase(ack->id)) return;  // answered before: nothing new in it
    sink_.post(PeerSaid{from, message});
    return;
  }
  if (std::holds_alternative<PullRequest>(message) || std::holds_alternative<PullAnswer>(message) ||
      std::holds_alternative<WriteEnded>(message)) {
    sink_.post(PeerSaid{from, message});
    return;
  }
  throw Error("transfer peer: sent a message of the handshake after it");
}

void SessionTransport::landed(LinkId link, const SlabNotice& notice) {
  Session* session = find(link);
  if (!session) return;
  const ArenaView view = arena();
  if (notice.slot >= view.words.size() || notice.bytes > view.slot_bytes ||
      !view.words.begin_check(notice.slot, notice.generation, session->writer_here))
    return refuse(link, notice, why_not(WriteResult::kUnwanted));
  Landed slab{link, session->handshake.peer(), notice, view};
  if (notice.bytes < kSummedBeside)
    answer(check(slab));
  else
    beside_.post(std::move(slab));
}

AnswerOrder SessionTransport::check(Landed& slab) {
  AnswerOrder order{slab.link, slab.notice, is_intact(slab.notice, slab.arena), false};
  order.wanted = slab.arena.words.finish_check(slab.notice.slot, slab.notice.generation, order.good);
  // The owner first: whoever hears from the sender that the slab is there finds it there.
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
      if (!order.cancelled->load(std::memory_order_relaxed)) order.summed = sum_up(order);
      post(std::move(order));
    }
  }
}

void SessionTransport::stop_work_beside() {
  beside_.close();
  beside_thread_.join();
}

void SessionTransport::answer(const AnswerOrder& order) {
  const Session* session = find(order.link);
  if (!session) return;
  if (!order.wanted) return refuse(order.link, order.notice, why_not(WriteResult::kUnwanted));
  SlabAck ack{order.notice.id, order.good, order.notice.checksum, {}};
  if (!order.good) ack.why = "transfer: the slab's checksum is wrong";
  if (!session->closing) say(order.link, ack);
}

void SessionTransport::refuse(LinkId link, const SlabNotice& notice, const std::string& why) {
  Session* session = find(link);
  if (!session) return;
  sink_.post(PeerSaid{session->handshake.peer(), WriteEnded{notice.slot, notice.generation}});
  if (!session->closing) say(link, SlabAck{notice.id, false, 0, why});
}

}  // namespace cheetah::cluster::transfer
