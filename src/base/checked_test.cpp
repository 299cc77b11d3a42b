// SPDX-License-Identifier: MIT
#include "base/checked.h"

#include <gtest/gtest.h>

#include <limits>

namespace cheetah {
namespace {

constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();

TEST(Checked, ComputesWhatPlainIntegersComputeInRange) {
  EXPECT_EQ((CheckedSize(6) * CheckedSize(7) + CheckedSize(1)).get(), 43u);
  EXPECT_EQ(CheckedSize(33).aligned_to(32).get(), 64u);
  EXPECT_EQ(CheckedSize(64).aligned_to(32).get(), 64u);
}

TEST(Checked, ThrowsWhereAPlainIntegerWouldWrap) {
  EXPECT_THROW(CheckedSize(kMax) + CheckedSize(1), Error);
  EXPECT_THROW(CheckedSize(uint64_t{1} << 32) * CheckedSize(uint64_t{1} << 32), Error);
  EXPECT_THROW(CheckedSize(0) - CheckedSize(1), Error);
  EXPECT_THROW(CheckedSize(1) / CheckedSize(0), Error);
  EXPECT_THROW(CheckedSize(kMax).aligned_to(32), Error);
}

TEST(Checked, RefusesValuesThatDoNotFit) {
  EXPECT_THROW(CheckedSize(-1), Error);
  EXPECT_THROW(CheckedSize(kMax).to<int64_t>(), Error);
}

TEST(Printable, EscapesControlCharactersAndWhatIsNotUtf8) {
  EXPECT_EQ(printable("a\x1b[1m\xc2\x9b"), "a\\x1b[1m\\xc2\\x9b");
  EXPECT_EQ(printable(std::string_view("\xc2", 1)), "\\xc2");  // a sequence cut after its first byte
  EXPECT_EQ(printable("naïve"), "naïve");
}

}  // namespace
}  // namespace cheetah
