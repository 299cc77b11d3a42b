// SPDX-License-Identifier: MIT
#include "quantize/sha256.h"

#include <openssl/evp.h>

#include <array>

#include "base/error.h"
#include "base/format.h"

namespace cheetah {

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  State() = default;
  State(const State&) = delete;
  ~State() { EVP_MD_CTX_free(context); }
};

namespace {

void require(int status) {
  if (status != 1) throw Error("SHA-256 is not available from OpenSSL: check its configuration");
}

}  // namespace

Sha256::Sha256() : state_(std::make_unique<State>()) {
  require(EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr));
}

Sha256::~Sha256() = default;

void Sha256::add(std::span<const std::byte> bytes) {
  require(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()));
}

std::string Sha256::hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  require(EVP_DigestFinal_ex(state_->context, digest.data(), &size));
  std::string text;
  for (unsigned i = 0; i < size; ++i) text += format("{:02x}", digest[i]);
  return text;
}

std::string sha256_of(std::string_view text) {
  Sha256 hash;
  hash.add(text);
  return hash.hex();
}

std::string sha256_of(const TensorMap& tensors) {
  Sha256 hash;
  for (const auto& [name, view] : tensors) {
    hash.add(format("{}\n{} {}\n", name, name_of(view.dtype), view.shape.text()));
    hash.add(std::span(view.data, static_cast<size_t>(view.bytes())));
  }
  return hash.hex();
}

}  // namespace cheetah
