// SPDX-License-Identifier: MIT
#include "lab/analysis/access.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "base/error.h"

namespace cheetah::analysis {
namespace {

WarpAccess strided(int64_t stride, int64_t width = 4, int64_t offset = 0) {
  return make_access(
      LanePattern::parse(std::to_string(stride) + " * lane"), offset, width, width, 0xffffffff);
}

TEST(LanePattern, FollowsTheRulesOfC) {
  EXPECT_EQ(LanePattern::parse("1 + 2 * lane").at(5), 11);
  EXPECT_EQ(LanePattern::parse("(lane % 8) * 32 + lane / 8").at(13), 161);
  EXPECT_EQ(LanePattern::parse("lane ^ (lane >> 2) & 3").at(13), 13 ^ (13 >> 2 & 3));
  EXPECT_EQ(LanePattern::parse("-lane + 0x1F").at(31), 0);
  EXPECT_EQ(LanePattern::parse("1 << lane | ~0 & 1").at(4), 17);
  EXPECT_EQ(LanePattern::parse("threadIdx.x*2").at(4), 8);
}

TEST(LanePattern, SaysWhereAFormulaIsWrong) {
  for (const char* formula :
      {"", "lane +", "lane lane", "(lane", "2 ** lane", "lane < 3", "blockIdx", "lanes", "1.5"})
    EXPECT_THROW(LanePattern::parse(formula), Error) << formula;
  EXPECT_THROW(LanePattern::parse(std::string(200, '(') + "1"), Error);
  EXPECT_THROW(LanePattern::parse(std::string(5000, ' ')), Error);
  EXPECT_THROW(LanePattern::parse("1 / lane").at(0), Error);
  EXPECT_THROW(LanePattern::parse("1 << (lane + 60)").at(31), Error);
  EXPECT_THROW(LanePattern::parse("9223372036854775807 * lane").at(2), Error);
}

TEST(LanePattern, AnyTextIsAFormulaOrAnError) {
  EXPECT_TRUE(rc::check("formulas", [] {
    const auto text = *rc::gen::container<std::string>(
        rc::gen::element(' ', 'l', '1', '9', '(', ')', '*', '/', '-', '<', '^', 't', '~'));
    try {
      LanePattern::parse(text).at(3);
    } catch (const Error&) {
      // a refusal is an answer
    }
  }));
}

TEST(GlobalAccess, StridesTouchTheComputedSectors) {
  const struct {
    int64_t stride, sectors;
    double efficiency;
  } cases[] = {{1, 4, 1}, {2, 8, 0.5}, {4, 16, 0.25}, {8, 32, 0.125}, {32, 32, 0.125}};
  for (const auto& c : cases) {
    const GlobalReport report = global_report(strided(c.stride));
    EXPECT_EQ(report.sectors, c.sectors) << c.stride;
    EXPECT_EQ(report.ideal_sectors, 4);
    EXPECT_DOUBLE_EQ(report.efficiency, c.efficiency) << c.stride;
    EXPECT_EQ(report.verdict.starts_with("coalesced"), c.stride == 1);
  }
}

TEST(GlobalAccess, TheIdealFollowsTheWidth) {
  for (const int64_t width : {4, 8, 16, 32}) {
    const GlobalReport report = global_report(strided(1, width));
    EXPECT_EQ(report.sectors, width);
    EXPECT_EQ(report.ideal_sectors, width);
    EXPECT_EQ(report.efficiency, 1);
  }
}

TEST(GlobalAccess, MisalignmentCostsOneSectorOrOnlyALine) {
  for (int64_t offset = 0; offset < 128; offset += 4) {
    const GlobalReport report = global_report(strided(1, 4, offset));
    EXPECT_EQ(report.sectors, offset % 32 == 0 ? 4 : 5) << offset;
    EXPECT_EQ(report.split, offset != 0) << offset;
  }
  EXPECT_DOUBLE_EQ(global_report(strided(1, 4, 4)).efficiency, 0.8);
  EXPECT_EQ(global_report(strided(1, 16, 16)).sectors, 17);
  EXPECT_EQ(global_report(strided(1, 16, 4)).misaligned_lanes, 32);
}

TEST(GlobalAccess, BroadcastAndSwitchedOffLanesAreCounted) {
  const GlobalReport same = global_report(strided(0));
  EXPECT_EQ(same.sectors, 1);
  EXPECT_TRUE(same.broadcast);
  EXPECT_DOUBLE_EQ(same.efficiency, 0.125);
  const auto half = make_access(LanePattern::parse("lane"), 0, 4, 4, 0xffff);
  EXPECT_EQ(half.active_lanes(), 16);
  EXPECT_EQ(global_report(half).sectors, 2);
  EXPECT_EQ(global_report(make_access(LanePattern::parse("lane"), 0, 4, 4, 0)).verdict, "no lane is active");
  EXPECT_THROW(make_access(LanePattern::parse("-lane"), 0, 4, 4, 0xffffffff), Error);
}

TEST(Banks, ColumnsOfPaddedRowsHaveTheComputedDegree) {
  const std::pair<int64_t, int64_t> rows[] = {
      {32, 32}, {33, 1}, {34, 2}, {36, 4}, {40, 8}, {1, 1}, {2, 2}, {64, 32}};
  for (const auto& [row, degree] : rows) EXPECT_EQ(bank_report(strided(row)).degree, degree) << row;
}

TEST(Banks, EqualWordsAreBroadcast) {
  const BankReport same = bank_report(strided(0));
  EXPECT_EQ(same.degree, 1);
  EXPECT_TRUE(same.broadcast);
  const BankReport halves = bank_report(make_access(LanePattern::parse("lane / 2"), 0, 2, 2, 0xffffffff));
  EXPECT_EQ(halves.conflicts(), 0);
}

TEST(Banks, WideAccessesTakePhases) {
  EXPECT_EQ(bank_report(strided(1, 8)).phases, 2);
  EXPECT_EQ(bank_report(strided(1, 8)).conflicts(), 0);
  EXPECT_EQ(bank_report(strided(1, 16)).phases, 4);
  EXPECT_EQ(bank_report(strided(1, 16)).conflicts(), 0);
  EXPECT_EQ(bank_report(strided(8, 16)).degree, 8);  // 128-byte rows read down a column of 16-byte pieces
  EXPECT_EQ(bank_report(strided(16, 8)).degree, 16);
  EXPECT_THROW(bank_report(strided(1, 32)), Error);
}

TEST(Banks, TheSmallestCuresOfATransposeAreOneWordAndASwizzle) {
  const auto cures = find_cures(strided(32), 128);
  ASSERT_EQ(cures.size(), 2u);
  EXPECT_EQ(cures[0].pad_bytes, 4);
  EXPECT_EQ(cures[0].degree, 1);
  EXPECT_EQ(cures[1].mask, 31);
  EXPECT_EQ(cures[1].shift, 0);
  EXPECT_EQ(cures[1].degree, 1);
  EXPECT_TRUE(find_cures(strided(33), 132).empty());
}

TEST(Banks, SixteenBytePiecesOfShortRowsNeedASmallerSwizzle) {
  const auto cures = find_cures(strided(8, 16), 128);  // the layout of a tensor core's 64 x bf16 tile
  ASSERT_EQ(cures.size(), 2u);
  EXPECT_EQ(cures[0].pad_bytes, 16);
  EXPECT_EQ(cures[1].mask, 7);
  EXPECT_EQ(cures[1].degree, 1);
}

TEST(Banks, ACureNeverMakesItWorse) {
  EXPECT_TRUE(rc::check("cures", [](uint8_t stride, uint8_t row) {
    const WarpAccess access = strided(stride);
    for (const Cure& cure : find_cures(access, 4 * (row + 1)))
      RC_ASSERT(cure.degree < bank_report(access).degree);
  }));
}

}  // namespace
}  // namespace cheetah::analysis
