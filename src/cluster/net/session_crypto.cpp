#include "cluster/net/session_crypto.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include "base/error.h"

namespace cheetah::cluster {
namespace {

const uint8_t* bytes_of(std::string_view text) { return reinterpret_cast<const uint8_t*>(text.data()); }
uint8_t* bytes_of(std::string& text) { return reinterpret_cast<uint8_t*>(text.data()); }

void check(int status, const char* what) {
  if (status != 1) throw Error(std::string("OpenSSL: ") + what + " failed");
}

}  // namespace

Digest hmac_sha256(std::string_view key, std::string_view text) {
  Digest digest = {};
  unsigned size = 0;
  const void* start = key.empty() ? "" : key.data();
  if (HMAC(EVP_sha256(), start, static_cast<int>(key.size()), bytes_of(text), text.size(), digest.data(),
           &size) == nullptr ||
      size != digest.size())
    throw Error("OpenSSL: HMAC-SHA256 failed");
  return digest;
}

bool same_digest(std::string_view a, const Digest& b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), b.size()) == 0;
}

Digest random_nonce() {
  Digest nonce = {};
  check(RAND_bytes(nonce.data(), static_cast<int>(nonce.size())), "drawing random bytes");
  return nonce;
}

struct PacketCipher::State {
  EVP_CIPHER_CTX* context = EVP_CIPHER_CTX_new();
  Digest key;
  uint64_t count = 0;  // of packets; the key is fresh for every link, so no pair of key and count comes twice

  explicit State(const Digest& secret) : key(secret) {
    if (context == nullptr) throw Error("OpenSSL: no memory for a cipher");
  }
  ~State() {
    EVP_CIPHER_CTX_free(context);
    OPENSSL_cleanse(key.data(), key.size());
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void begin(bool seals) {
    std::array<uint8_t, 12> nonce = {};
    for (size_t i = 0; i < sizeof count; ++i) nonce[i] = static_cast<uint8_t>(count >> (8 * i));
    ++count;
    check(EVP_CipherInit_ex(context, EVP_aes_256_gcm(), nullptr, key.data(), nonce.data(), seals ? 1 : 0),
          "AES-256-GCM");
  }
};

PacketCipher::PacketCipher(const Digest& key) : state_(std::make_unique<State>(key)) {}
PacketCipher::~PacketCipher() = default;
PacketCipher::PacketCipher(PacketCipher&&) noexcept = default;
PacketCipher& PacketCipher::operator=(PacketCipher&&) noexcept = default;

std::string PacketCipher::seal(std::string_view packet) {
  state_->begin(true);
  std::string sealed(packet.size() + kTagBytes, '\0');
  int size = 0;
  check(EVP_EncryptUpdate(state_->context, bytes_of(sealed), &size, bytes_of(packet),
                          static_cast<int>(packet.size())),
        "sealing");
  check(EVP_EncryptFinal_ex(state_->context, bytes_of(sealed) + size, &size), "sealing");
  check(
      EVP_CIPHER_CTX_ctrl(state_->context, EVP_CTRL_GCM_GET_TAG, kTagBytes, bytes_of(sealed) + packet.size()),
      "sealing");
  return sealed;
}

std::string PacketCipher::open(std::string_view sealed) {
  if (sealed.size() < kTagBytes) throw Error("a sealed packet is too short");
  state_->begin(false);
  const std::string_view body = sealed.substr(0, sealed.size() - kTagBytes);
  std::string tag(sealed.substr(body.size()));
  std::string packet(body.size(), '\0');
  int size = 0;
  check(EVP_DecryptUpdate(state_->context, bytes_of(packet), &size, bytes_of(body),
                          static_cast<int>(body.size())),
        "opening");
  check(EVP_CIPHER_CTX_ctrl(state_->context, EVP_CTRL_GCM_SET_TAG, kTagBytes, tag.data()), "opening");
  if (EVP_DecryptFinal_ex(state_->context, bytes_of(packet) + size, &size) != 1)
    throw Error("a packet was changed, lost or doubled on its way");
  return packet;
}

}  // namespace cheetah::cluster
