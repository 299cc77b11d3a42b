// SPDX-License-Identifier: MIT
#pragma once
// Pages are small and transports like large messages: pages of 8 to 128 tokens travel together as slabs of at
// least kMinSlabTokens. A slab is a fixed header and then its pages, whole and in order.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace cheetah::cluster {

inline constexpr int64_t kMinSlabTokens = 128;

// Little-endian, as it lies at a slab's beginning.
struct SlabHeader {
  static constexpr uint32_t kMagic = 0x42414C53;  // "SLAB"
  static constexpr uint16_t kVersion = 2;
  uint32_t magic = kMagic;
  uint16_t version = kVersion;
  uint16_t header_bytes = sizeof(SlabHeader);
  uint64_t uid = 0;  // of the request
  uint32_t attempt = 0;
  uint32_t index = 0;  // of the slab among its request's
  int64_t first_token = 0;
  int32_t page_tokens = 0;
  int32_t num_pages = 0;
  int64_t page_bytes = 0;
  char dtype[8] = {};  // of the numbers as they travel
  uint16_t tp_rank = 0, tp_size = 1;
  uint8_t reserved[4] = {};
};
static_assert(sizeof(SlabHeader) == 64);

// One slab of a plan: pages [first_page, first_page + num_pages) of the request.
struct SlabRange {
  int64_t first_page = 0;
  int64_t num_pages = 0;

  bool operator==(const SlabRange&) const = default;
};
struct SlabShape {
  int32_t page_tokens = 0;
  int64_t page_bytes = 0;
  int64_t slot_bytes = 0;  // of the receiver
  int64_t min_tokens = kMinSlabTokens;
};
// Cuts pages into slabs of at least min_tokens, where they fit a slot and there are so many. Sender and
// receiver come to the same plan. Throws Error when not even one page fits.
std::vector<SlabRange> plan_slabs(int64_t num_pages, const SlabShape& shape);
inline int64_t slab_bytes(int64_t num_pages, int64_t page_bytes) {
  return static_cast<int64_t>(sizeof(SlabHeader)) + num_pages * page_bytes;
}

// Checked against the bytes there are; throws Error with what is wrong.
struct SlabView {
  SlabHeader header;
  std::span<const std::byte> pages;

  std::span<const std::byte> page(int64_t index) const {
    return pages.subspan(
        static_cast<size_t>(index * header.page_bytes), static_cast<size_t>(header.page_bytes));
  }
};
SlabView parse_slab(std::span<const std::byte> bytes);

}  // namespace cheetah::cluster
