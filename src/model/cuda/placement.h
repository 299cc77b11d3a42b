// SPDX-License-Identifier: MIT
#pragma once
// Where each of a model's weights goes in one block of device memory. Pure: decides, moves nothing.
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>

namespace cheetah {

class Placement {
 public:
  static constexpr int64_t kAlignment =
      256;  // of every place: whole sectors, and what the copy engine asks for
  struct Piece {
    const std::byte* data = nullptr;
    int64_t bytes = 0;
  };
  struct Place {
    int64_t bytes = 0;
    int64_t offset = 0;
  };

  // Gives the piece a place, unless it lies in one that has a place already. No data: nothing.
  void add(const Piece& piece);
  // Side by side without gaps, where none of them has a place yet; else as add() does with each. Tells
  // whether they now lie side by side.
  bool add_neighbours(std::initializer_list<Piece> pieces);

  int64_t offset_of(const void* data) const;  // of anything inside a piece that was added
  int64_t total_bytes() const { return total_bytes_; }
  const std::map<const std::byte*, Place>& places() const { return places_; }

 private:
  const Place* find(const std::byte* data) const;
  void append(const Piece& piece);
  bool side_by_side(std::initializer_list<Piece> pieces) const;
  std::map<const std::byte*, Place> places_;  // by where the data begins; they do not overlap
  int64_t total_bytes_ = 0;
};

}  // namespace cheetah
