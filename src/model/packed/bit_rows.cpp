// SPDX-License-Identifier: MIT
#include "model/packed/bit_rows.h"

namespace cheetah {
namespace {

void or_word(std::byte* at, uint32_t value) {
  uint32_t word;
  std::memcpy(&word, at, sizeof word);
  word |= value;
  std::memcpy(at, &word, sizeof word);
}

}  // namespace

void BitWriter::put(int64_t index, int bits, uint8_t value) const {
  const int64_t bit = index * bits, at = bit / 32, shift = bit % 32;
  or_word(data + at * stride, static_cast<uint32_t>(value) << shift);
  if (shift + bits > 32) or_word(data + (at + 1) * stride, static_cast<uint32_t>(value) >> (32 - shift));
}

}  // namespace cheetah
