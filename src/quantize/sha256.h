// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "model/files/tensor_map.h"

namespace cheetah {

// SHA-256 of bytes that arrive in pieces.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  void add(std::span<const std::byte> bytes);
  void add(std::string_view text) { add(std::as_bytes(std::span(text.data(), text.size()))); }
  std::string hex();  // once, at the end

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string sha256_of(std::string_view text);

// Of every tensor's name, type, shape and bytes, in the order of names: it tells weights apart whatever file
// they are in, and does not change with a file's metadata.
std::string sha256_of(const TensorMap& tensors);

}  // namespace cheetah
