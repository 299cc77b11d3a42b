// SPDX-License-Identifier: MIT
#include "model/cuda/placement.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"

namespace cheetah {

const Placement::Place* Placement::find(const std::byte* data) const {
  const auto after = places_.upper_bound(data);
  if (after == places_.begin()) return nullptr;
  const auto& [begin, place] = *std::prev(after);
  return data < begin + place.bytes ? &place : nullptr;
}

void Placement::append(const Piece& piece) {
  places_[piece.data] = {.bytes = piece.bytes, .offset = total_bytes_};
  total_bytes_ += piece.bytes;
}

void Placement::add(const Piece& piece) {
  if (!piece.data || piece.bytes == 0 || find(piece.data)) return;
  total_bytes_ = (total_bytes_ + kAlignment - 1) / kAlignment * kAlignment;
  append(piece);
}

bool Placement::add_neighbours(std::initializer_list<Piece> pieces) {
  const auto is_new = [&](const Piece& piece) { return piece.data && piece.bytes > 0 && !find(piece.data); };
  if (!std::ranges::all_of(pieces, is_new)) {
    for (const Piece& piece : pieces) add(piece);
    return side_by_side(pieces);
  }
  for (const Piece& piece : pieces) piece.data == pieces.begin()->data ? add(piece) : append(piece);
  return true;
}

bool Placement::side_by_side(std::initializer_list<Piece> pieces) const {
  int64_t next = -1;
  for (const Piece& piece : pieces) {
    if (!piece.data || piece.bytes == 0) return false;
    const int64_t offset = offset_of(piece.data);
    if (next >= 0 && offset != next) return false;
    next = offset + piece.bytes;
  }
  return true;
}

int64_t Placement::offset_of(const void* data) const {
  const auto* bytes = static_cast<const std::byte*>(data);
  const auto after = places_.upper_bound(bytes);
  CHEETAH_ASSERT(after != places_.begin(), "a weight without a place");
  const auto& [begin, place] = *std::prev(after);
  CHEETAH_ASSERT(bytes < begin + place.bytes, "a weight without a place");
  return place.offset + (bytes - begin);
}

}  // namespace cheetah
