#include "cluster/net/session.h"

#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "cluster/net/mesh.h"

namespace cheetah::cluster {
namespace {

constexpr std::string_view kMagic = "cheetah-mesh";
constexpr uint8_t kHello = 1, kProof = 2, kRefusal = 3, kUnneeded = 4;
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

[[noreturn]] void malformed() { throw Error("not a peer of this cluster: the handshake is malformed"); }

}  // namespace

Session::Session(SessionSetup setup, const Digest& nonce)
    : setup_(std::move(setup)), nonce_(nonce), frames_(kMaxHandshakeFrameBytes) {
  if (setup_.identity) tunnel_.emplace(setup_.identity, setup_.dials);
}

std::string Session::hello() const {
  std::string body(1, static_cast<char>(kHello));
  body += kMagic;
  put(body, kSessionVersion);
  put(body, static_cast<uint64_t>(setup_.self));
  body += text_of(nonce_);
  return to_frame(body);
}

std::string Session::opening() {
  if (tunnel_) return tunnel_->take_output();
  return setup_.dials ? hello() : std::string();
}

std::string Session::refusal(std::string_view why, bool unneeded) {
  std::string body(1, static_cast<char>(unneeded ? kUnneeded : kRefusal));
  body += why.substr(0, kMaxHandshakeFrameBytes - 1);
  const std::string frame = to_frame(body);
  if (!tunnel_ || speech_ == Speech::kPlain) return frame;
  if (tunnel_->stands()) tunnel_->seal(frame);  // before, TLS has its own way to say it
  return tunnel_->take_output();
}

void Session::receive(std::string_view bytes, std::string& reply, std::vector<Packet>& packets) {
  if (!tunnel_) {
    if (!peer_ && begins_as_tls(bytes))
      throw Error(
          "the peer comes with a certificate, this worker with a secret: give all workers --secret-file, or "
          "all --cluster-cert");
    return take_frames(bytes, reply, packets);
  }
  if (speech_ != Speech::kTls) {
    recognise(bytes);
    if (speech_ != Speech::kTls) return;
    bytes = unrecognised_;
  }
  std::string said, answer;
  const bool stood = tunnel_->stands();
  tunnel_->open(bytes, said);
  if (tunnel_->stands() && !stood) {
    setup_.secret = tunnel_->binding();
    if (setup_.dials) answer = hello();
  }
  take_frames(said, answer, packets);
  if (!answer.empty()) tunnel_->seal(answer);
  reply += tunnel_->take_output();
}

// A peer that was given the secret instead of a certificate is told so in its own language, and may tell us.
void Session::recognise(std::string_view bytes) {
  unrecognised_ += bytes;
  if (unrecognised_.size() < 2) return;
  speech_ = begins_as_tls(unrecognised_) ? Speech::kTls : Speech::kPlain;
  if (speech_ == Speech::kTls) return;
  std::optional<std::string> frame;
  try {
    FrameReader plain(kMaxHandshakeFrameBytes);
    plain.append(unrecognised_);
    frame = plain.next();
    if (!frame) return;
  } catch (const Error&) {  // neither TLS nor a frame
  }
  if (frame && static_cast<uint8_t>((*frame)[0]) == kRefusal)
    throw HandshakeEnd(format("refused by the peer: {}", printable(frame->substr(1), 200)),
                       HandshakeEnd::Kind::kRefusedByPeer);
  throw Error(
      "the peer comes without TLS: give all workers a certificate (--cluster-cert, --cluster-key, "
      "--cluster-ca), or all the secret");
}

void Session::take_frames(std::string_view bytes, std::string& reply, std::vector<Packet>& packets) {
  frames_.append(bytes);
  while (auto frame = frames_.next()) {
    if (established())
      packets.push_back(take_packet(std::move(*frame)));
    else
      take_handshake(*frame, reply);
  }
}

Packet Session::take_packet(std::string&& frame) {
  std::string packet = tunnel_ ? std::move(frame) : receiver_->open(frame);
  if (packet.empty()) throw Error("an empty packet");
  const auto type = static_cast<PacketType>(packet[0]);
  if (type < PacketType::kMessage || type > PacketType::kPong)
    throw Error(format("a packet of unknown type {}", static_cast<int>(type)));
  packet.erase(0, 1);
  return {type, std::move(packet)};
}

void Session::take_handshake(std::string_view frame, std::string& reply) {
  const auto type = static_cast<uint8_t>(frame[0]);
  const std::string_view body = frame.substr(1);
  if (type == kRefusal || type == kUnneeded)
    throw HandshakeEnd(
        format("refused by the peer: {}", printable(body, 200)),
        type == kRefusal ? HandshakeEnd::Kind::kRefusedByPeer : HandshakeEnd::Kind::kUnneededByPeer);
  if (type == kHello && !peer_) return take_hello(body, reply);
  if (type == kProof && peer_) return take_proof(body, reply);
  malformed();
}

void Session::take_hello(std::string_view body, std::string& reply) {
  if (!body.starts_with(kMagic) || body.size() < kMagic.size() + sizeof(uint16_t)) malformed();
  const auto version = get<uint16_t>(body.substr(kMagic.size()));
  if (version != kSessionVersion)
    throw Error(
        format("the peer speaks version {} of the protocol, expected {}: run the same release "
               "everywhere",
               version, kSessionVersion));
  if (body.size() != kHelloBytes) malformed();
  body.remove_prefix(kMagic.size() + sizeof version);
  const WorkerId id{get<uint64_t>(body)};
  body.remove_prefix(sizeof(uint64_t));
  if (id == setup_.self) throw Error("the peer has this worker's own id");
  if (setup_.expected && *setup_.expected != id)
    throw Error(format("worker {:x} answers where worker {:x} was expected: it was restarted or moved",
                       static_cast<uint64_t>(id), static_cast<uint64_t>(*setup_.expected)));
  if (tunnel_ && !id_fits_name(id, tunnel_->peer_name()))
    throw Error(format("worker {:x} is not {}, whose certificate it shows", static_cast<uint64_t>(id),
                       printable(tunnel_->peer_name())));
  body.copy(reinterpret_cast<char*>(peer_nonce_.data()), kNonceBytes);
  peer_ = id;
  if (const std::string why = setup_.objection ? setup_.objection(id) : ""; !why.empty())
    throw HandshakeEnd(why, HandshakeEnd::Kind::kUnneeded);
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
  established_ = true;
  frames_.set_limit(kMaxMessageBytes + 1 + PacketCipher::kTagBytes);
  if (tunnel_) return;
  const Digest dialer = derive("dialer sends"), listener = derive("listener sends");
  sender_.emplace(setup_.dials ? dialer : listener);
  receiver_.emplace(setup_.dials ? listener : dialer);
}

std::string Session::seal(PacketType type, std::string_view payload) {
  CHEETAH_ASSERT(established(), "nothing is sent before both have proved who they are");
  std::string packet;
  packet.reserve(payload.size() + 1);
  packet.push_back(static_cast<char>(type));
  packet += payload;
  if (!tunnel_) return to_frame(sender_->seal(packet));
  tunnel_->seal(to_frame(packet));
  return tunnel_->take_output();
}

}  // namespace cheetah::cluster
