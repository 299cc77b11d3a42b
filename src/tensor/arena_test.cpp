// SPDX-License-Identifier: MIT
#include "tensor/arena.h"

#include <gtest/gtest.h>

#include <cstring>

namespace cheetah {
namespace {

TEST(Arena, GivesZeroedAlignedPiecesThatDoNotOverlap) {
  Arena arena;
  std::vector<std::pair<std::byte*, int64_t>> pieces;
  for (const int64_t bytes : {1, 64, 1000, 5 << 20, 63, 3 << 20, 100, 9 << 20, 1}) {
    std::byte* piece = arena.take(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(piece) % 64, 0u);
    for (int64_t i = 0; i < bytes; i += 4096) EXPECT_EQ(piece[i], std::byte{0});
    std::memset(piece, static_cast<int>(pieces.size()) + 1, static_cast<size_t>(bytes));
    pieces.emplace_back(piece, bytes);
  }
  for (size_t i = 0; i < pieces.size(); ++i)
    for (const int64_t at : {int64_t{0}, pieces[i].second - 1})
      EXPECT_EQ(std::to_integer<size_t>(pieces[i].first[at]), i + 1);
  EXPECT_GE(arena.size(), int64_t{17} << 20);
}

TEST(Arena, KeepsPiecesTogetherThatBelongTogether) {
  Arena arena;
  arena.take((4 << 20) - 128);  // room for two small pieces is left
  arena.keep_together(192);
  std::byte* first = arena.take(64);
  EXPECT_EQ(arena.take(64), first + 64);
  EXPECT_EQ(arena.take(64), first + 128);
}

}  // namespace
}  // namespace cheetah
