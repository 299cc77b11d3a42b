#include "cluster/transfer/handshake.h"

#include <openssl/rand.h>

#include "base/error.h"
#include "base/format.h"
#include "cluster/net/session_crypto.h"

namespace cheetah::cluster::transfer {
namespace {

void fill_random(void* to, size_t bytes) {
  if (RAND_bytes(static_cast<unsigned char*>(to), static_cast<int>(bytes)) != 1)
    throw Error("transfer: the system gives no random numbers");
}

template <class T>
void append(std::string& to, const T& value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

}  // namespace

Nonce random_nonce() {
  Nonce nonce;
  fill_random(nonce.data(), nonce.size());
  return nonce;
}

uint64_t random_number() {
  uint64_t number;
  fill_random(&number, sizeof number);
  return number;
}

Handshake::Handshake(bool connects, WorkerId self, HandshakeSetup setup)
    : connects_(connects), self_(self), setup_(std::move(setup)), mine_(random_nonce()) {}

Handshake Handshake::connecting(WorkerId self, WorkerId peer, HandshakeSetup setup) {
  Handshake handshake(true, self, std::move(setup));
  handshake.peer_ = peer;
  return handshake;
}

Handshake Handshake::listening(WorkerId self, HandshakeSetup setup) {
  return Handshake(false, self, std::move(setup));
}

std::optional<AgentMessage> Handshake::first() const {
  if (!connects_) return std::nullopt;
  return AgentHello{self_, peer_, mine_};
}

std::string Handshake::transcript(bool of_connecting) const {
  std::string text = of_connecting ? "cheetah transfer connecting" : "cheetah transfer listening";
  append(text, connects_ ? mine_ : theirs_);
  append(text, connects_ ? theirs_ : mine_);
  append(text, connects_ ? self_ : peer_);
  append(text, connects_ ? peer_ : self_);
  return text + setup_.address;
}

Proof Handshake::proof(bool of_connecting) const {
  const std::string text = transcript(of_connecting);
  if (setup_.credentials.identity) return setup_.credentials.identity->sign(text);
  const Digest digest = hmac_sha256(setup_.credentials.secret, text);
  return {digest.begin(), digest.end()};
}

void Handshake::check(const Proof& proof, bool of_connecting) const {
  const std::string text = transcript(of_connecting);
  try {
    if (setup_.credentials.identity) return setup_.credentials.identity->check(proof, text, peer_);
  } catch (const Error& error) {
    throw Error(format("transfer peer: {}", error.what()));
  }
  if (!same_digest(proof, hmac_sha256(setup_.credentials.secret, text)))
    throw Error("transfer peer: does not know the cluster's secret, expected the same secret on all workers");
}

std::optional<AgentMessage> Handshake::handle(const AgentMessage& message) {
  if (const auto* hello = std::get_if<AgentHello>(&message); hello && !connects_ && !heard_hello_) {
    if (hello->to != self_)
      throw Error(format("transfer peer {:x}: wants worker {:x}, this is {:x}",
                         static_cast<uint64_t>(hello->from), static_cast<uint64_t>(hello->to),
                         static_cast<uint64_t>(self_)));
    heard_hello_ = true;
    peer_ = hello->from;
    theirs_ = hello->nonce;
    return AgentChallenge{self_, mine_, proof(false)};
  }
  if (const auto* challenge = std::get_if<AgentChallenge>(&message);
      challenge && connects_ && !authenticated_) {
    theirs_ = challenge->nonce;
    if (challenge->from != peer_)
      throw Error("transfer peer: another worker answers than the one that was wanted");
    check(challenge->proof, false);
    authenticated_ = true;
    return AgentProof{proof(true)};
  }
  if (const auto* answer = std::get_if<AgentProof>(&message); answer && heard_hello_ && !authenticated_) {
    check(answer->proof, true);
    authenticated_ = true;
    return std::nullopt;
  }
  throw Error("transfer peer: sent a message out of turn, expected the handshake");
}

}  // namespace cheetah::cluster::transfer
