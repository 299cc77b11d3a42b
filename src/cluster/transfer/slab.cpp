// SPDX-License-Identifier: MIT
#include "cluster/transfer/slab.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/checked.h"
#include "base/error.h"
#include "base/format.h"

namespace cheetah::cluster {

static_assert(std::endian::native == std::endian::little, "headers are copied as they are");

std::vector<SlabRange> plan_slabs(int64_t num_pages, const SlabShape& shape) {
  if (shape.page_tokens <= 0 || shape.page_bytes <= 0 || num_pages < 0)
    throw Error(format("slabs: {} pages of {} tokens and {} bytes, expected sizes above zero", num_pages,
        shape.page_tokens, shape.page_bytes));
  const int64_t room = (shape.slot_bytes - static_cast<int64_t>(sizeof(SlabHeader))) / shape.page_bytes;
  if (room < 1)
    throw Error(
        format("slabs: a page of {} bytes does not fit a slot of {}", shape.page_bytes, shape.slot_bytes));
  const int64_t wanted = (std::max<int64_t>(shape.min_tokens, 1) + shape.page_tokens - 1) / shape.page_tokens;
  const int64_t each = std::min(wanted, room);
  std::vector<SlabRange> slabs;
  for (int64_t first = 0; first < num_pages; first += each)
    slabs.push_back({first, std::min(each, num_pages - first)});
  // A short last slab joins the one before, where there is room.
  if (slabs.size() > 1 && slabs.back().num_pages < each && slabs.back().num_pages + each <= room) {
    const int64_t rest = slabs.back().num_pages;
    slabs.pop_back();
    slabs.back().num_pages += rest;
  }
  return slabs;
}

SlabView parse_slab(std::span<const std::byte> bytes) {
  SlabView view;
  if (bytes.size() < sizeof view.header)
    throw Error(format("slab: {} bytes, expected a header of {}", bytes.size(), sizeof view.header));
  std::memcpy(&view.header, bytes.data(), sizeof view.header);
  const SlabHeader& header = view.header;
  if (header.magic != SlabHeader::kMagic || header.version != SlabHeader::kVersion ||
      header.header_bytes != sizeof header)
    throw Error(format("slab: magic {:08x} and version {}, expected {:08x} and {}", header.magic,
        header.version, SlabHeader::kMagic, SlabHeader::kVersion));
  if (header.page_tokens <= 0 || header.num_pages < 0 || header.page_bytes <= 0 || header.first_token < 0)
    throw Error(format("slab: {} pages of {} tokens and {} bytes from token {}, expected sizes above zero",
        header.num_pages, header.page_tokens, header.page_bytes, header.first_token));
  const uint64_t expected =
      (CheckedSize(header.num_pages) * CheckedSize(header.page_bytes) + CheckedSize(sizeof header)).get();
  if (expected != bytes.size())
    throw Error(format("slab: {} bytes, expected {} as its header says", bytes.size(), expected));
  view.pages = bytes.subspan(sizeof header);
  return view;
}

}  // namespace cheetah::cluster
