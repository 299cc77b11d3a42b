// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

namespace cheetah {

// A set of characters, coarsely: each ASCII character but NUL, and all longer ones together. Small enough to
// keep one for every node of the vocabulary's trie and to compare in two instructions.
struct TextClass {
  uint64_t bits[2] = {0, 0};  // bit c of the 128; bit 0 stands for the longer characters

  void add(uint8_t ascii) { bits[ascii / 64] |= uint64_t{1} << (ascii % 64); }
  void add_longer() { bits[0] |= 1; }
  void add(const TextClass& other) {
    bits[0] |= other.bits[0];
    bits[1] |= other.bits[1];
  }
  bool within(const TextClass& other) const {
    return ((bits[0] & ~other.bits[0]) | (bits[1] & ~other.bits[1])) == 0;
  }
  bool empty() const { return (bits[0] | bits[1]) == 0; }
};

}  // namespace cheetah
