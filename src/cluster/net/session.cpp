#include "cluster/net/session.h"

#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "cluster/net/mesh.h"

namespace cheetah::cluster {
namespace {

constexpr std::string_view kMagic = "cheetah-mesh";
constexpr uint8_t kHello = 1, kProof = 2, kRefusal = 3;
constexpr size_t kNonceBytes = std::tuple_size_v<Digest>;
constexpr size_t kHelloBytes = kMagic.size() + sizeof(uint16_t) + sizeof(uint64_t) + kNonceBytes;

template <class T>
void put(std::string& out, T value) {
  for (size_t i = 0; i < sizeof value; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}

template <class T>
T get(std::string_view bytes) {
  T value = 0;
  for (size_t i = 0; i < sizeof value; ++i)
    value = static_cast<T>(value | T{static_cast<uint8_t>(bytes[i])} << (8 * i));
  return value;
}

std::string_view text_of(const Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

}  // namespace

Session::Session(SessionSetup setup, const Digest& nonce)
    : setup_(std::move(setup)), nonce_(nonce), frames_(kMaxHandshakeFrameBytes) {}

std::string Session::hello() const {
  std::string body(1, static_cast<char>(kHello));
  body += kMagic;
  put(body, kSessionVersion);
  put(body, static_cast<uint64_t>(setup_.self));
  body += text_of(nonce_);
  return to_frame(body);
}

std::string Session::opening() const { return setup_.dials ? hello() : std::string(); }

std::string Session::refusal(std::string_view why) {
  std::string body(1, static_cast<char>(kRefusal));
  body += why.substr(0, kMaxHandshakeFrameBytes - 1);
  return to_frame(body);
}

void Session::receive(std::string_view bytes, std::string& reply, std::vector<Packet>& packets) {
  frames_.append(bytes);
  while (auto frame = frames_.next()) {
    if (!established()) {
      take_handshake(*frame, reply);
      continue;
    }
    std::string packet = receiver_->open(*frame);
    if (packet.empty()) throw Error("an empty packet");
    const auto type = static_cast<PacketType>(packet[0]);
    if (type < PacketType::kMessage || type > PacketType::kPong)
      throw Error(format("a packet of unknown type {}", static_cast<int>(type)));
    packet.erase(0, 1);
    packets.push_back({type, std::move(packet)});
  }
}

void Session::take_handshake(std::string_view frame, std::string& reply) {
  const auto type = static_cast<uint8_t>(frame[0]);
  const std::string_view body = frame.substr(1);
  if (type == kRefusal) throw Error(format("refused by the peer: {}", printable(body, 200)));
  if (type == kHello && !peer_) return take_hello(body, reply);
  if (type == kProof && peer_) return take_proof(body, reply);
  throw Error("not a peer of this cluster: the handshake is malformed");
}

void Session::take_hello(std::string_view body, std::string& reply) {
  if (!body.starts_with(kMagic) || body.size() < kMagic.size() + sizeof(uint16_t))
    throw Error("not a peer of this cluster: the handshake is malformed");
  const auto version = get<uint16_t>(body.substr(kMagic.size()));
  if (version != kSessionVersion)
    throw Error(
        format("the peer speaks version {} of the protocol, expected {}: run the same release "
               "everywhere",
               version, kSessionVersion));
  if (body.size() != kHelloBytes) throw Error("not a peer of this cluster: the handshake is malformed");
  body.remove_prefix(kMagic.size() + sizeof version);
  const WorkerId id{get<uint64_t>(body)};
  body.remove_prefix(sizeof(uint64_t));
  if (id == setup_.self) throw Error("the peer has this worker's own id");
  if (setup_.expected && *setup_.expected != id)
    throw Error(format("worker {:x} answers where worker {:x} was expected: it was restarted or moved",
                       static_cast<uint64_t>(id), static_cast<uint64_t>(*setup_.expected)));
  body.copy(reinterpret_cast<char*>(peer_nonce_.data()), kNonceBytes);
  peer_ = id;
  if (!setup_.dials) {
    reply += hello();
    return;
  }
  std::string proof(1, static_cast<char>(kProof));
  proof += text_of(derive("dialer"));
  reply += to_frame(proof);
}

void Session::take_proof(std::string_view body, std::string& reply) {
  if (!same_digest(body, derive(setup_.dials ? "listener" : "dialer")))
    throw Error("the peer does not know the cluster's secret: give all workers the same --secret-file");
  if (!setup_.dials) {  // a listener proves itself only to those who have
    std::string proof(1, static_cast<char>(kProof));
    proof += text_of(derive("listener"));
    reply += to_frame(proof);
  }
  establish();
}

std::string Session::transcript() const {
  const bool dials = setup_.dials;
  std::string text(kMagic);
  put(text, kSessionVersion);
  put(text, static_cast<uint64_t>(dials ? setup_.self : *peer_));
  put(text, static_cast<uint64_t>(dials ? *peer_ : setup_.self));
  text += text_of(dials ? nonce_ : peer_nonce_);
  text += text_of(dials ? peer_nonce_ : nonce_);
  return text;
}

Digest Session::derive(std::string_view label) const {
  return hmac_sha256(setup_.secret, std::string(label) + '\0' + transcript());
}

void Session::establish() {
  const Digest dialer = derive("dialer sends"), listener = derive("listener sends");
  sender_.emplace(setup_.dials ? dialer : listener);
  receiver_.emplace(setup_.dials ? listener : dialer);
  frames_.set_limit(kMaxMessageBytes + 1 + PacketCipher::kTagBytes);
}

std::string Session::seal(PacketType type, std::string_view payload) {
  CHEETAH_ASSERT(established(), "nothing is sent before both have proved who they are");
  std::string packet;
  packet.reserve(payload.size() + 1);
  packet.push_back(static_cast<char>(type));
  packet += payload;
  return to_frame(sender_->seal(packet));
}

}  // namespace cheetah::cluster
