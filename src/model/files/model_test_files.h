// SPDX-License-Identifier: MIT
#pragma once
// Writers of small GGUF and safetensors files for tests, able to lie in every field.
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/format.h"
#include "base/temp_dir.h"

namespace cheetah::test {

inline std::span<const std::byte> as_bytes(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// The little-endian bytes of a number.
template <class T>
std::string le(T value) {
  std::string out(sizeof value, '\0');
  std::memcpy(out.data(), &value, sizeof value);
  return out;
}

// A string as GGUF stores it: its length, then its bytes.
inline std::string gguf_string(std::string_view text) {
  return le(uint64_t{text.size()}) + std::string(text);
}

struct GgufBuilder {
  std::string magic = "GGUF";
  uint32_t version = 3;
  uint64_t alignment = 32;                // of the data section
  std::optional<uint64_t> declared_keys;  // instead of the true counts
  std::optional<uint64_t> declared_tensors;
  std::string data;  // the data section

  GgufBuilder& key(std::string_view name, uint32_t type, std::string_view payload) {
    keys_ += gguf_string(name) + le(type) + std::string(payload);
    ++num_keys_;
    return *this;
  }
  GgufBuilder& u32(std::string_view name, uint32_t value) { return key(name, 4, le(value)); }
  GgufBuilder& f32(std::string_view name, float value) { return key(name, 6, le(value)); }
  GgufBuilder& boolean(std::string_view name, uint8_t value) { return key(name, 7, le(value)); }
  GgufBuilder& string(std::string_view name, std::string_view value) {
    return key(name, 8, gguf_string(value));
  }
  GgufBuilder& array(std::string_view name, uint32_t type, uint64_t count, std::string_view payload) {
    return key(name, 9, le(type) + le(count) + std::string(payload));
  }
  GgufBuilder& strings(std::string_view name, const std::vector<std::string>& values) {
    std::string payload;
    for (const std::string& value : values) payload += gguf_string(value);
    return array(name, 8, values.size(), payload);
  }
  // Dimensions innermost first, as in the file.
  GgufBuilder& tensor(
      std::string_view name, const std::vector<uint64_t>& dims, uint32_t type, uint64_t offset) {
    tensors_ += gguf_string(name) + le(static_cast<uint32_t>(dims.size()));
    for (const uint64_t dim : dims) tensors_ += le(dim);
    tensors_ += le(type) + le(offset);
    ++num_tensors_;
    return *this;
  }
  GgufBuilder& bytes(size_t count) {
    data.append(count, '\1');
    return *this;
  }

  std::string build() const {
    std::string out = magic + le(version) + le(declared_tensors.value_or(num_tensors_)) +
                      le(declared_keys.value_or(num_keys_)) + keys_ + tensors_;
    if (num_tensors_ > 0) out.resize((out.size() + alignment - 1) / alignment * alignment);
    return out + data;
  }

 private:
  std::string keys_;
  std::string tensors_;
  uint64_t num_keys_ = 0;
  uint64_t num_tensors_ = 0;
};

// A safetensors file of this header and data.
inline std::string safetensors_file(std::string_view header, std::string_view data) {
  return le(uint64_t{header.size()}) + std::string(header) + std::string(data);
}

// One F32 tensor [2] of that name: the smallest useful file.
inline std::string small_safetensors(std::string_view name) {
  return safetensors_file(
      format(R"({{"{}":{{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}}})", name), le(1.0f) + le(2.0f));
}

// A directory that is gone when the test ends.
class TemporaryDirectory : public TempDir {
 public:
  void link(const std::string& name, const std::string& target) const {
    const std::filesystem::path at = path(name);
    std::filesystem::create_directories(at.parent_path());
    std::filesystem::create_symlink(target, at);
  }
};

}  // namespace cheetah::test
