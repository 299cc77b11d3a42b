// SPDX-License-Identifier: MIT
#include "doctor/history.h"

#include <gtest/gtest.h>

#include "base/temp_dir.h"
#include "doctor/expected.h"
#include "doctor/fixture.h"

namespace cheetah::doctor {
namespace {

Report report_with(const std::vector<std::string>& ids) {
  Report report;
  for (const std::string& id : ids) {
    Finding finding;
    finding.check = find_check(id);
    finding.outcome = bad("it is bad");
    finding.risk = 0.1;
    report.findings.push_back(finding);
  }
  return report;
}

TEST(History, KnowsRatesAndLeavesResetsOut) {
  const TempDir folder;
  History history(folder.path("history.db"));
  history.add("a", 0, {{"x", 100}, {"y", 5}}, {});
  history.add("a", 3600, {{"x", 130}, {"y", 5}}, {});
  history.add("a", 7200, {{"x", 20}, {"y", 5}}, {});
  history.add("b", 7200, {{"x", 9999}}, {});
  const auto trends = history.trends("a", 0);
  ASSERT_EQ(trends.size(), 2u);
  EXPECT_EQ(trends[0].name, "x");
  EXPECT_EQ(trends[0].added, 50);
  EXPECT_EQ(trends[0].hours, 2);
  EXPECT_EQ(trends[0].per_day(), 600);
  EXPECT_EQ(trends[1].per_day(), 0);
}

TEST(History, TellsWhatCameAndWhatWent) {
  const TempDir folder;
  History history(folder.path("history.db"));
  EXPECT_EQ(history.add("a", 1, {}, report_with({"HST-01"})).size(), 1u);
  EXPECT_TRUE(history.add("a", 2, {}, report_with({"HST-01"})).empty());
  const auto changes = history.add("a", 3, {}, report_with({"HST-02"}));
  ASSERT_EQ(changes.size(), 2u);
  EXPECT_EQ(changes[0].check, "HST-02");
  EXPECT_TRUE(changes[0].is_new);
  EXPECT_EQ(changes[1].check, "HST-01");
  EXPECT_FALSE(changes[1].is_new);
  history.forget_before(10);
  EXPECT_EQ(history.add("a", 11, {}, report_with({"HST-02"})).size(), 1u);
}

TEST(History, AFileThatIsNoneIsRefusedByName) {
  const TempDir folder;
  EXPECT_THROW(History(folder.write("not.db", std::string(4096, 'x'))), Error);
  EXPECT_THROW(History("/no/such/folder/history.db"), Error);
}

TEST(Expected, ABaselineIsMetByTheHostItWasMadeOf) {
  Facts facts = Machine::healthy().facts();
  facts.expected = parse_expected(baseline_text(facts, "node \"a\""), "baseline");
  EXPECT_GT(facts.expected->size(), 30u);
  const Outcome same = find_check("SITE-01")->examine(facts);
  EXPECT_EQ(same.verdict, Verdict::kGood) << same.found;
  (*facts.expected)["GPUs"] = {"7 x NVIDIA H200"};
  EXPECT_EQ(find_check("SITE-01")->examine(facts).verdict, Verdict::kBad);
  EXPECT_THROW(parse_expected("a: b", "baseline"), Error);
}

}  // namespace
}  // namespace cheetah::doctor
