// SPDX-License-Identifier: MIT
#pragma once
// Numbers of 1 to 8 bits in little-endian 32-bit words, one after another as a stream of bits.
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace cheetah {

// Words that lie `stride` bytes apart; they may be unaligned.
struct BitWords {
  const std::byte* data;
  int64_t stride = 4;

  uint32_t word(int64_t index) const {
    uint32_t value;
    std::memcpy(&value, data + index * stride, sizeof value);
    return value;
  }
  uint8_t number(int64_t index, int bits) const {
    const int64_t bit = index * bits, at = bit / 32, shift = bit % 32;
    uint64_t both = word(at) >> shift;
    if (shift + bits > 32) both |= static_cast<uint64_t>(word(at + 1)) << (32 - shift);
    return static_cast<uint8_t>(both & ((1u << bits) - 1));
  }
};

struct BitWriter {
  std::byte* data;  // zeroed
  int64_t stride = 4;

  void put(int64_t index, int bits, uint8_t value) const;
};

// 32-bit words for `count` numbers in a stream of bits.
inline int64_t words_for(int64_t count, int bits) { return (count * bits + 31) / 32; }

}  // namespace cheetah
