// SPDX-License-Identifier: MIT
#include "cli/numbers.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace cheetah {
namespace {

TEST(Counts, AcceptDecimalAndBinaryThousands) {
  EXPECT_EQ(parse_count("-n", "512", 1, 1000), 512);
  EXPECT_EQ(parse_count("-n", "32k", 1, 1 << 20), 32000);
  EXPECT_EQ(parse_count("-n", "32K", 1, 1 << 20), 32768);
  EXPECT_EQ(parse_count("-n", "1.5k", 1, 1 << 20), 1500);
}

TEST(Counts, RefuseWhatIsNotAWholeNumberInRange) {
  for (const char* text :
      {"", "x", "-1", "0", "1e3", "1.0001", "8000x", "nan", "inf", "1001", " 5", "0x10", "1.2.3"})
    EXPECT_THROW(parse_count("-n", text, 1, 1000), UsageError) << text;
}

TEST(Bytes, AcceptTheUsualUnits) {
  EXPECT_EQ(parse_bytes("--memory", "24GiB"), int64_t{24} << 30);
  EXPECT_EQ(parse_bytes("--memory", "80GB"), 80'000'000'000);
  EXPECT_EQ(parse_bytes("--memory", "1.5G"), int64_t{3} << 29);
  EXPECT_EQ(parse_bytes("--memory", "4096"), 4096);
}

TEST(Bytes, RefuseUnknownUnitsAndZero) {
  for (const char* text : {"", "GiB", "12 GiB", "12 parsecs", "-1G", "0", "1e99"})
    EXPECT_THROW(parse_bytes("--memory", text), UsageError) << text;
}

}  // namespace
}  // namespace cheetah
