// SPDX-License-Identifier: MIT
#include "cluster/net/session.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "cluster/net/mesh.h"

namespace cheetah::cluster {
namespace {

constexpr uint8_t kHello = 1, kReady = 2, kRefusal = 3, kUnneeded = 4;

template <class T>
void put(std::string& out, T value) {
  for (size_t i = 0; i < sizeof value; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}

[[noreturn]] void malformed() { throw Error("not a peer of this cluster: the handshake is malformed"); }

template <class T>
T take(std::string_view& bytes) {
  if (bytes.size() < sizeof(T)) malformed();
  T value = 0;
  for (size_t i = 0; i < sizeof value; ++i)
    value = static_cast<T>(value | T{static_cast<uint8_t>(bytes[i])} << (8 * i));
  bytes.remove_prefix(sizeof value);
  return value;
}

// What both read must overlap.
void check_versions(const char* what, const WireVersions& theirs, const WireVersions& ours) {
  if (std::min(theirs.newest, ours.newest) >= std::max(theirs.oldest, ours.oldest)) return;
  throw Error(format(
      "the peer speaks versions {} to {} of the {}, expected {} to {}: run releases that follow one another",
      theirs.oldest, theirs.newest, what, ours.oldest, ours.newest));
}

}  // namespace

Session::Session(SessionSetup setup)
    : setup_(std::move(setup)), tunnel_(setup_.credentials, setup_.dials), frames_(kMaxHandshakeFrameBytes) {}

std::string Session::hello() const {
  std::string body(1, static_cast<char>(kHello));
  body += setup_.purpose;
  put(body, kSessionVersion);
  put(body, kOldestSessionVersion);
  put(body, static_cast<uint64_t>(setup_.self));
  body.append(setup_.key.begin(), setup_.key.end());
  put(body, setup_.wire.newest);
  put(body, setup_.wire.oldest);
  return to_frame(body);
}

std::string Session::opening() { return tunnel_.take_output(); }

std::string Session::refusal(std::string_view why, bool unneeded) {
  std::string body(1, static_cast<char>(unneeded ? kUnneeded : kRefusal));
  body += why.substr(0, kMaxHandshakeFrameBytes - 1);
  if (tunnel_.stands()) tunnel_.seal(to_frame(body));  // before, TLS has its own way to say it
  return tunnel_.take_output();
}

void Session::receive(std::string_view bytes, std::string& reply, std::vector<Packet>& packets) {
  std::string said, answer;
  const bool stood = tunnel_.stands();
  tunnel_.open(bytes, said);
  if (tunnel_.stands() && !stood && setup_.dials) answer = hello();
  frames_.append(said);
  while (auto frame = frames_.next()) {
    if (established())
      packets.push_back(take_packet(std::move(*frame)));
    else
      take_handshake(*frame, answer);
  }
  if (!answer.empty()) tunnel_.seal(answer);
  reply += tunnel_.take_output();
}

Packet Session::take_packet(std::string&& packet) {
  const auto type = static_cast<PacketType>(packet[0]);
  if (type < PacketType::kMessage || type > PacketType::kPong)
    throw Error(format("a packet of unknown type {}", static_cast<int>(type)));
  packet.erase(0, 1);
  return {type, std::move(packet)};
}

void Session::take_handshake(std::string_view frame, std::string& answer) {
  const auto type = static_cast<uint8_t>(frame[0]);
  const std::string_view body = frame.substr(1);
  if (type == kRefusal || type == kUnneeded)
    throw HandshakeEnd(format("refused by the peer: {}", printable(body, 200)),
        type == kRefusal ? HandshakeEnd::Kind::kRefusedByPeer : HandshakeEnd::Kind::kUnneededByPeer);
  if (type == kHello && !peer_) return take_hello(body, answer);
  if (type == kReady && peer_ && !setup_.dials) return establish();
  malformed();
}

// Later versions may say more behind it all.
void Session::take_hello(std::string_view body, std::string& answer) {
  if (!body.starts_with(setup_.purpose)) malformed();
  body.remove_prefix(setup_.purpose.size());
  const auto newest = take<uint16_t>(body), oldest = take<uint16_t>(body);
  check_versions("protocol", {newest, oldest}, {kSessionVersion, kOldestSessionVersion});
  version_ = std::min(newest, kSessionVersion);
  const WorkerId id{take<uint64_t>(body)};
  if (body.size() < peer_key_.size()) malformed();
  std::copy_n(body.begin(), peer_key_.size(), peer_key_.begin());
  body.remove_prefix(peer_key_.size());
  WireVersions wire{4, 4};  // which did not say
  if (!body.empty()) {
    wire.newest = take<uint16_t>(body);
    wire.oldest = take<uint16_t>(body);
  }
  check_versions("messages", wire, setup_.wire);
  if (id == setup_.self) throw Error("the peer has this worker's own id");
  if (setup_.expected && *setup_.expected != id)
    throw Error(format("worker {:x} answers where worker {:x} was expected: it was restarted or moved",
        static_cast<uint64_t>(id), static_cast<uint64_t>(*setup_.expected)));
  if (setup_.credentials.identity && !id_fits_name(id, tunnel_.peer_name()))
    throw Error(format("worker {:x} is not {}, whose certificate it shows", static_cast<uint64_t>(id),
        printable(tunnel_.peer_name())));
  peer_ = id;
  if (const std::string why = setup_.objection ? setup_.objection(id) : ""; !why.empty())
    throw HandshakeEnd(why, HandshakeEnd::Kind::kUnneeded);
  answer += setup_.dials ? to_frame(std::string(1, static_cast<char>(kReady))) : hello();
  if (setup_.dials) establish();
}

void Session::establish() {
  established_ = true;
  frames_.set_limit(kMaxMessageBytes + 1);
}

std::string Session::seal(PacketType type, std::string_view payload) {
  CHEETAH_ASSERT(established(), "nothing is sent before both have said who they are");
  std::string packet;
  packet.reserve(payload.size() + 1);
  packet.push_back(static_cast<char>(type));
  packet += payload;
  tunnel_.seal(to_frame(packet));
  return tunnel_.take_output();
}

}  // namespace cheetah::cluster
