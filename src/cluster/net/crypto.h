// SPDX-License-Identifier: MIT
#pragma once
// Keys, random numbers and sealed bytes, on OpenSSL.
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

struct evp_cipher_ctx_st;

namespace cheetah::cluster {

using Digest = std::array<uint8_t, 32>;

Digest hmac_sha256(std::string_view key, std::string_view text);
// HKDF-SHA256 without salt: keys of different labels tell nothing about each other or the secret.
Digest hkdf_sha256(std::string_view secret, std::string_view label);
Digest random_nonce();
uint64_t random_number();

inline constexpr size_t kSealTagBytes = 16, kSealNonceBytes = 12;
using SealTag = std::array<uint8_t, kSealTagBytes>;
using SealNonce = std::array<uint8_t, kSealNonceBytes>;

// AES-256-GCM over bytes that come in pieces; `to` may be `from`.
class SealStream {
 public:
  enum class Way { kSeal, kOpen };
  SealStream(const Digest& key, const SealNonce& nonce, std::string_view with, Way way);
  void update(std::span<const std::byte> from, std::byte* to);
  SealTag seal();                 // at the end of kSeal
  bool open(const SealTag& tag);  // at the end of kOpen: false: something was changed

 private:
  struct Free {
    void operator()(evp_cipher_ctx_st* cipher) const;
  };
  std::unique_ptr<evp_cipher_ctx_st, Free> cipher_;
};

// The same at once. `with` is authenticated and not sealed. `to` may be `from`. A key never sees one nonce twice.
SealTag seal_bytes(const Digest& key, const SealNonce& nonce, std::string_view with,
    std::span<const std::byte> from, std::byte* to);
// False: something was changed, or sealed under another key; then `to` holds nothing of use.
bool open_bytes(const Digest& key, const SealNonce& nonce, std::string_view with, const SealTag& tag,
    std::span<const std::byte> from, std::byte* to);

// The same for a text, under a random nonce that goes along.
std::string seal_text(const Digest& key, std::string_view with, std::string_view text);
std::optional<std::string> open_text(const Digest& key, std::string_view with, std::string_view sealed);

}  // namespace cheetah::cluster
