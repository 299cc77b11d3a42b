#include "cluster/transfer/handshake.h"

#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include "base/error.h"
#include "base/format.h"

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

Handshake::Handshake(bool connects, WorkerId self, std::string secret)
    : connects_(connects), self_(self), secret_(std::move(secret)), mine_(random_nonce()) {}

Handshake Handshake::connecting(WorkerId self, WorkerId peer, std::string secret) {
  Handshake handshake(true, self, std::move(secret));
  handshake.peer_ = peer;
  return handshake;
}

Handshake Handshake::listening(WorkerId self, std::string secret) {
  return Handshake(false, self, std::move(secret));
}

std::optional<AgentMessage> Handshake::first() const {
  if (!connects_) return std::nullopt;
  return AgentHello{self_, peer_, mine_};
}

Proof Handshake::proof(bool of_connecting) const {
  std::string text = of_connecting ? "cheetah transfer connecting" : "cheetah transfer listening";
  append(text, connects_ ? mine_ : theirs_);
  append(text, connects_ ? theirs_ : mine_);
  append(text, connects_ ? self_ : peer_);
  append(text, connects_ ? peer_ : self_);
  Proof proof;
  unsigned int size = proof.size();
  if (!HMAC(EVP_sha256(), secret_.data(), static_cast<int>(secret_.size()),
            reinterpret_cast<const unsigned char*>(text.data()), text.size(), proof.data(), &size))
    throw Error("transfer: HMAC-SHA256 is not available");
  return proof;
}

std::optional<AgentMessage> Handshake::handle(const AgentMessage& message) {
  const auto same = [](const Proof& a, const Proof& b) {
    return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
  };
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
    if (challenge->from != peer_ || !same(challenge->proof, proof(false)))
      throw Error(
          "transfer peer: does not know the cluster's secret, expected the same secret on all workers");
    authenticated_ = true;
    return AgentProof{proof(true)};
  }
  if (const auto* answer = std::get_if<AgentProof>(&message); answer && heard_hello_ && !authenticated_) {
    if (!same(answer->proof, proof(true)))
      throw Error(
          "transfer peer: does not know the cluster's secret, expected the same secret on all workers");
    authenticated_ = true;
    return std::nullopt;
  }
  throw Error("transfer peer: sent a message out of turn, expected the handshake");
}

}  // namespace cheetah::cluster::transfer
