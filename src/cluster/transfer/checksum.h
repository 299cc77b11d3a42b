// SPDX-License-Identifier: MIT
#pragma once
// The checksum of a slab: CRC32C in four interleaved lanes, because one chain of the processor's crc32
// instruction is bound by its latency and four are not.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace cheetah::cluster::transfer {

// Bytes may come in pieces of any size; the value depends on their sequence alone.
class Checksum {
 public:
  void update(std::span<const std::byte> bytes);
  // The same while copying, in one pass over memory. What is larger than the caches is written past them:
  // filling them with it first would read all of it from memory.
  void update_and_copy(std::span<const std::byte> bytes, std::byte* to);
  uint64_t value() const;

 private:
  static constexpr size_t kBlock = 32;  // a word of eight bytes for each lane
  std::array<uint32_t, 4> lanes_{~0u, ~0u, ~0u, ~0u};
  std::array<std::byte, kBlock> rest_{};
  size_t rest_bytes_ = 0;
  uint64_t total_bytes_ = 0;
};

uint64_t checksum(std::span<const std::byte> bytes);

// What a processor without the instruction does; the same values.
uint32_t crc32c_word_plain(uint32_t crc, uint64_t word);

}  // namespace cheetah::cluster::transfer
