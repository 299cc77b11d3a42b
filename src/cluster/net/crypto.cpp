// SPDX-License-Identifier: MIT
#include "cluster/net/crypto.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <algorithm>

#include "base/error.h"

namespace cheetah::cluster {
namespace {

const uint8_t* bytes_of(std::string_view text) { return reinterpret_cast<const uint8_t*>(text.data()); }
std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

void check(int status, const char* what) {
  if (status != 1) throw Error(std::string("OpenSSL: ") + what + " failed");
}

void fill_random(void* to, size_t bytes) {
  check(RAND_bytes(static_cast<uint8_t*>(to), static_cast<int>(bytes)), "drawing random bytes");
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

// RFC 5869 with an empty salt and one block of output.
Digest hkdf_sha256(std::string_view secret, std::string_view label) {
  const Digest zeros = {};
  const Digest extracted = hmac_sha256({reinterpret_cast<const char*>(zeros.data()), zeros.size()}, secret);
  return hmac_sha256(
      {reinterpret_cast<const char*>(extracted.data()), extracted.size()}, std::string(label) + '\1');
}

Digest random_nonce() {
  Digest nonce = {};
  fill_random(nonce.data(), nonce.size());
  return nonce;
}

uint64_t random_number() {
  uint64_t number = 0;
  fill_random(&number, sizeof number);
  return number;
}

void SealStream::Free::operator()(EVP_CIPHER_CTX* cipher) const { EVP_CIPHER_CTX_free(cipher); }

SealStream::SealStream(const Digest& key, const SealNonce& nonce, std::string_view with, Way way)
    : cipher_(EVP_CIPHER_CTX_new()) {
  check(cipher_ != nullptr, "memory for a cipher");
  check(EVP_CipherInit_ex(
            cipher_.get(), EVP_aes_256_gcm(), nullptr, key.data(), nonce.data(), way == Way::kSeal),
      "AES-256-GCM");
  int size = 0;
  if (!with.empty())
    check(EVP_CipherUpdate(cipher_.get(), nullptr, &size, bytes_of(with), static_cast<int>(with.size())),
        "AES-256-GCM");
}

void SealStream::update(std::span<const std::byte> from, std::byte* to) {
  constexpr size_t kMost = size_t{1} << 30;  // OpenSSL counts in int
  while (!from.empty()) {
    const auto piece = from.first(std::min(kMost, from.size()));
    int size = 0;
    check(EVP_CipherUpdate(cipher_.get(), reinterpret_cast<uint8_t*>(to), &size,
              reinterpret_cast<const uint8_t*>(piece.data()), static_cast<int>(piece.size())),
        "AES-256-GCM");
    to += piece.size();
    from = from.subspan(piece.size());
  }
}

SealTag SealStream::seal() {
  SealTag tag = {};
  int size = 0;
  check(EVP_CipherFinal_ex(cipher_.get(), tag.data(), &size), "sealing");
  check(EVP_CIPHER_CTX_ctrl(cipher_.get(), EVP_CTRL_GCM_GET_TAG, kSealTagBytes, tag.data()), "sealing");
  return tag;
}

bool SealStream::open(const SealTag& tag) {
  SealTag copy = tag, unused = {};
  int size = 0;
  check(EVP_CIPHER_CTX_ctrl(cipher_.get(), EVP_CTRL_GCM_SET_TAG, kSealTagBytes, copy.data()), "opening");
  return EVP_CipherFinal_ex(cipher_.get(), unused.data(), &size) == 1;
}

SealTag seal_bytes(const Digest& key, const SealNonce& nonce, std::string_view with,
    std::span<const std::byte> from, std::byte* to) {
  SealStream stream(key, nonce, with, SealStream::Way::kSeal);
  stream.update(from, to);
  return stream.seal();
}

bool open_bytes(const Digest& key, const SealNonce& nonce, std::string_view with, const SealTag& tag,
    std::span<const std::byte> from, std::byte* to) {
  SealStream stream(key, nonce, with, SealStream::Way::kOpen);
  stream.update(from, to);
  return stream.open(tag);
}

std::string seal_text(const Digest& key, std::string_view with, std::string_view text) {
  SealNonce nonce;
  fill_random(nonce.data(), nonce.size());
  std::string sealed(kSealNonceBytes + text.size() + kSealTagBytes, '\0');
  const SealTag tag = seal_bytes(
      key, nonce, with, as_bytes(text), reinterpret_cast<std::byte*>(sealed.data()) + kSealNonceBytes);
  std::copy(nonce.begin(), nonce.end(), sealed.begin());
  std::copy(tag.begin(), tag.end(), sealed.end() - kSealTagBytes);
  return sealed;
}

std::optional<std::string> open_text(const Digest& key, std::string_view with, std::string_view sealed) {
  if (sealed.size() < kSealNonceBytes + kSealTagBytes) return std::nullopt;
  SealNonce nonce;
  SealTag tag;
  std::copy_n(sealed.begin(), kSealNonceBytes, nonce.begin());
  std::copy_n(sealed.end() - kSealTagBytes, kSealTagBytes, tag.begin());
  sealed = sealed.substr(kSealNonceBytes, sealed.size() - kSealNonceBytes - kSealTagBytes);
  std::string text(sealed.size(), '\0');
  if (!open_bytes(key, nonce, with, tag, as_bytes(sealed), reinterpret_cast<std::byte*>(text.data())))
    return std::nullopt;
  return text;
}

}  // namespace cheetah::cluster
