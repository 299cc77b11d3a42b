#include "base/table.h"

#include <gtest/gtest.h>

namespace cheetah {
namespace {

TEST(Table, AlignsTheFirstColumnLeftAndTheOthersRight) {
  Table table({"case", "Δlogit"});
  table.add({"a", "1.5"});
  table.add({"longer", "12.25"});
  EXPECT_EQ(table.render(),
            "case    Δlogit\n"
            "------  ------\n"
            "a          1.5\n"
            "longer   12.25\n");
}

TEST(Table, WritesSizesForPeople) {
  EXPECT_EQ(human_bytes(1536), "1.5 KiB");
  EXPECT_EQ(human_bytes(12), "12 B");
  EXPECT_EQ(human_count(8030261248.0), "8.03 B");
}

}  // namespace
}  // namespace cheetah
