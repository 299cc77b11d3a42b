// SPDX-License-Identifier: MIT
#include "hub/digest.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/format.h"

namespace cheetah::hub {
namespace {

constexpr size_t kSha1Digits = 40, kSha256Digits = 64;

struct FreeContext {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};

}  // namespace

struct Digest::State {
  std::unique_ptr<EVP_MD_CTX, FreeContext> context{EVP_MD_CTX_new()};
  const EVP_MD* kind = nullptr;
  std::string head;  // of a git blob
};

Digest::Digest(const std::string& etag, int64_t bytes) : state_(std::make_unique<State>()) {
  CHEETAH_ASSERT(is_etag(etag), "the hub's answer was checked");
  const bool is_git = etag.size() == kSha1Digits;
  state_->kind = is_git ? EVP_sha1() : EVP_sha256();
  if (is_git) state_->head = format("blob {}", bytes) + '\0';
  restart();
}

Digest::~Digest() = default;

void Digest::restart() {
  if (EVP_DigestInit_ex(state_->context.get(), state_->kind, nullptr) != 1)
    throw Error("OpenSSL cannot compute this kind of checksum");
  add(state_->head);
}

void Digest::add(std::string_view bytes) {
  EVP_DigestUpdate(state_->context.get(), bytes.data(), bytes.size());
}

std::string Digest::finish() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> sum{};
  unsigned int size = 0;
  EVP_DigestFinal_ex(state_->context.get(), sum.data(), &size);
  std::string hex;
  for (unsigned int i = 0; i < size; ++i) hex += format("{:02x}", sum[i]);
  return hex;
}

bool is_etag(std::string_view text) {
  const bool is_hex =
      std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
  return is_hex && (text.size() == kSha1Digits || text.size() == kSha256Digits);
}

}  // namespace cheetah::hub
