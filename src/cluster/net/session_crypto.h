#pragma once
// The cryptography of a link, on OpenSSL: HMAC-SHA256 to prove and derive, AES-256-GCM to seal.
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace cheetah::cluster {

using Digest = std::array<uint8_t, 32>;

Digest hmac_sha256(std::string_view key, std::string_view text);
bool same_digest(std::string_view a, const Digest& b);  // takes the same time wherever they differ
Digest random_nonce();

// Seals what one side of a link sends, or opens it. The n-th packet is sealed as the n-th: one that is lost,
// doubled, moved or changed does not open.
class PacketCipher {
 public:
  explicit PacketCipher(const Digest& key);
  ~PacketCipher();
  PacketCipher(PacketCipher&&) noexcept;
  PacketCipher& operator=(PacketCipher&&) noexcept;

  std::string seal(std::string_view packet);
  std::string open(std::string_view sealed);  // throws Error

  static constexpr size_t kTagBytes = 16;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cheetah::cluster
