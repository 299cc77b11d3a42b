// SPDX-License-Identifier: MIT
#include "cluster/transfer/checksum.h"

#include <algorithm>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace cheetah::cluster::transfer {
namespace {

using Lanes = std::array<uint32_t, 4>;

// Slabs are written in chunks of 256 KiB (slot_copy.cpp); what is smaller may well be read from a cache.
constexpr size_t kStreamedBytes = size_t{128} << 10;

constexpr std::array<uint32_t, 256> make_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? 0x82F63B78u : 0u);  // Castagnoli
    table[i] = crc;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kTable = make_table();

void blocks_plain(Lanes& lanes, const std::byte* data, size_t blocks) {
  for (size_t i = 0; i < blocks; ++i, data += 32) {
    std::array<uint64_t, 4> words;
    std::memcpy(words.data(), data, sizeof words);
    for (size_t lane = 0; lane < 4; ++lane) lanes[lane] = crc32c_word_plain(lanes[lane], words[lane]);
  }
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) void blocks_sse42(Lanes& lanes, const std::byte* data, size_t blocks) {
  uint64_t a = lanes[0], b = lanes[1], c = lanes[2], d = lanes[3];
  for (size_t i = 0; i < blocks; ++i, data += 32) {
    std::array<uint64_t, 4> words;
    std::memcpy(words.data(), data, sizeof words);
    a = _mm_crc32_u64(a, words[0]);
    b = _mm_crc32_u64(b, words[1]);
    c = _mm_crc32_u64(c, words[2]);
    d = _mm_crc32_u64(d, words[3]);
  }
  lanes = {
      static_cast<uint32_t>(a), static_cast<uint32_t>(b), static_cast<uint32_t>(c), static_cast<uint32_t>(d)};
}

// `to` is aligned to 16 bytes. Finding a page takes as long as filling a quarter of it, so the one that comes
// a few pages later is looked up now.
__attribute__((target("sse4.2"))) void copy_blocks_sse42(
    Lanes& lanes, const std::byte* data, size_t blocks, std::byte* to) {
  constexpr size_t kPageBlocks = 4096 / 32, kAheadBytes = 4 * 4096;
  uint64_t a = lanes[0], b = lanes[1], c = lanes[2], d = lanes[3];
  for (size_t i = 0; i < blocks; ++i, data += 32, to += 32) {
    if (i % kPageBlocks == 0) __builtin_prefetch(to + kAheadBytes, 1);
    const __m128i low = _mm_loadu_si128(reinterpret_cast<const __m128i*>(data));
    const __m128i high = _mm_loadu_si128(reinterpret_cast<const __m128i*>(data + 16));
    _mm_stream_si128(reinterpret_cast<__m128i*>(to), low);
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + 16), high);
    std::array<uint64_t, 4> words;
    std::memcpy(words.data(), data, sizeof words);
    a = _mm_crc32_u64(a, words[0]);
    b = _mm_crc32_u64(b, words[1]);
    c = _mm_crc32_u64(c, words[2]);
    d = _mm_crc32_u64(d, words[3]);
  }
  _mm_sfence();  // before anybody is told that it is there
  lanes = {
      static_cast<uint32_t>(a), static_cast<uint32_t>(b), static_cast<uint32_t>(c), static_cast<uint32_t>(d)};
}
#endif

void add_blocks(Lanes& lanes, const std::byte* data, size_t blocks) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2")) return blocks_sse42(lanes, data, blocks);
#endif
  blocks_plain(lanes, data, blocks);
}

}  // namespace

uint32_t crc32c_word_plain(uint32_t crc, uint64_t word) {
  for (int i = 0; i < 8; ++i, word >>= 8) crc = (crc >> 8) ^ kTable[(crc ^ word) & 0xFF];
  return crc;
}

void Checksum::update(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  total_bytes_ += bytes.size();
  if (rest_bytes_ > 0) {
    const size_t taken = std::min(kBlock - rest_bytes_, bytes.size());
    std::memcpy(rest_.data() + rest_bytes_, bytes.data(), taken);
    rest_bytes_ += taken;
    bytes = bytes.subspan(taken);
    if (rest_bytes_ < kBlock) return;
    add_blocks(lanes_, rest_.data(), 1);
    rest_bytes_ = 0;
  }
  add_blocks(lanes_, bytes.data(), bytes.size() / kBlock);
  rest_bytes_ = bytes.size() % kBlock;
  if (rest_bytes_ > 0) std::memcpy(rest_.data(), bytes.data() + bytes.size() - rest_bytes_, rest_bytes_);
}

void Checksum::update_and_copy(std::span<const std::byte> bytes, std::byte* to) {
#if defined(__x86_64__)
  const bool aligned = reinterpret_cast<uintptr_t>(to) % 16 == 0;
  if (bytes.size() >= kStreamedBytes && rest_bytes_ == 0 && aligned && __builtin_cpu_supports("sse4.2")) {
    const size_t blocks = bytes.size() / kBlock;
    copy_blocks_sse42(lanes_, bytes.data(), blocks, to);
    total_bytes_ += blocks * kBlock;
    to += blocks * kBlock;
    bytes = bytes.subspan(blocks * kBlock);
  }
#endif
  if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
  update(bytes);
}

uint64_t Checksum::value() const {
  Lanes lanes = lanes_;
  std::array<std::byte, kBlock> last{};  // padded with zeros; the length below tells them from real ones
  std::memcpy(last.data(), rest_.data(), rest_bytes_);
  add_blocks(lanes, last.data(), 1);
  const uint32_t low = crc32c_word_plain(lanes[0], (uint64_t{lanes[1]} << 32) ^ total_bytes_);
  const uint32_t high = crc32c_word_plain(lanes[2], (uint64_t{lanes[3]} << 32) ^ total_bytes_);
  return (uint64_t{high} << 32) | low;
}

uint64_t checksum(std::span<const std::byte> bytes) {
  Checksum sum;
  sum.update(bytes);
  return sum.value();
}

}  // namespace cheetah::cluster::transfer
