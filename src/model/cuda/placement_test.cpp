// SPDX-License-Identifier: MIT
#include "model/cuda/placement.h"

#include <gtest/gtest.h>

#include <vector>

namespace cheetah {
namespace {

TEST(Placement, AlignsPiecesAndKeepsWhatLiesInside) {
  const std::vector<std::byte> data(1000);
  Placement placement;
  placement.add({data.data() + 100, 10});
  placement.add({data.data() + 200, 300});
  placement.add({data.data() + 250, 20});  // lies in the one before
  placement.add({data.data() + 100, 10});  // the same again
  placement.add({nullptr, 10});
  EXPECT_EQ(placement.places().size(), 2u);
  EXPECT_EQ(placement.offset_of(data.data() + 105), 5);
  EXPECT_EQ(placement.offset_of(data.data() + 250), Placement::kAlignment + 50);
  EXPECT_EQ(placement.total_bytes(), Placement::kAlignment + 300);
}

TEST(Placement, PutsNeighboursSideBySide) {
  const std::vector<std::byte> data(1000);
  const std::byte *a = data.data() + 500, *b = data.data(), *c = data.data() + 700;
  Placement placement;
  placement.add({data.data() + 300, 1});
  EXPECT_TRUE(placement.add_neighbours({{a, 32}, {b, 48}, {c, 16}}));
  EXPECT_EQ(placement.offset_of(a) % Placement::kAlignment, 0);
  EXPECT_EQ(placement.offset_of(b), placement.offset_of(a) + 32);
  EXPECT_EQ(placement.offset_of(c), placement.offset_of(b) + 48);
  EXPECT_TRUE(placement.add_neighbours({{a, 32}, {b, 48}})) << "they already are";
  EXPECT_FALSE(placement.add_neighbours({{b, 48}, {a, 32}})) << "they lie the other way round";
  EXPECT_FALSE(placement.add_neighbours({{a, 32}, {data.data() + 900, 8}}));
  EXPECT_EQ(placement.offset_of(data.data() + 900) % Placement::kAlignment, 0);
}

}  // namespace
}  // namespace cheetah
