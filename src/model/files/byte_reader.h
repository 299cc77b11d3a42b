// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/format.h"

namespace cheetah {

// Reads little-endian values from bytes of unknown honesty: each step is checked against what is left, and
// nothing is copied or allocated from a declared size.
class ByteReader {
 public:
  ByteReader(std::span<const std::byte> bytes, const std::string& name) : bytes_(bytes), name_(name) {}

  uint64_t offset() const { return offset_; }
  uint64_t left() const { return bytes_.size() - offset_; }

  std::span<const std::byte> take(uint64_t count, std::string_view what) {
    if (count > left())
      throw Error(format("{}: {} at byte {} needs {} bytes, but the file has only {} left", name_, what,
          offset_, count, left()));
    const auto taken = bytes_.subspan(offset_, count);
    offset_ += count;
    return taken;
  }

  template <class T>
  T read(std::string_view what) {
    T value;
    std::memcpy(&value, take(sizeof(T), what).data(), sizeof(T));
    return value;
  }

 private:
  std::span<const std::byte> bytes_;
  const std::string& name_;
  uint64_t offset_ = 0;
};

}  // namespace cheetah
