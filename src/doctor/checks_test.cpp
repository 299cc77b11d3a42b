// SPDX-License-Identifier: MIT
// Every check can pass, fail and be not applicable: server.tree as it is, and changed by cases.txt.
#include <gtest/gtest.h>

#include <set>

#include "doctor/fixture.h"
#include "doctor/report.h"

namespace cheetah::doctor {
namespace {

const char* verdict_name(Verdict verdict) {
  constexpr const char* kNames[] = {"good", "note", "bad", "not applicable", "unknown"};
  return kNames[static_cast<size_t>(verdict)];
}

void expect_verdict(const CheckCase& one, const std::vector<std::string>& operations, Verdict expected) {
  Machine machine = Machine::healthy();
  for (const std::string& operation : operations)
    EXPECT_TRUE(apply(operation, machine)) << one.id << ": " << operation;
  const Check* check = find_check(one.id);
  ASSERT_NE(check, nullptr) << one.id;
  const Outcome outcome = examine_one(*check, machine.facts()).outcome;
  EXPECT_EQ(outcome.verdict, expected) << one.id << " should be " << verdict_name(expected) << ", is "
                                       << verdict_name(outcome.verdict) << ": " << outcome.found;
  EXPECT_FALSE(outcome.found.empty()) << one.id;
}

TEST(Checks, EachPassesOnAHealthyMachine) {
  for (const CheckCase& one : read_cases("cases.txt")) expect_verdict(one, one.good, Verdict::kGood);
}

TEST(Checks, EachFailsOnItsFault) {
  for (const CheckCase& one : read_cases("cases.txt")) {
    EXPECT_FALSE(one.bad.empty()) << one.id;
    expect_verdict(one, one.bad, Verdict::kBad);
  }
}

TEST(Checks, EachIsNotApplicableWithoutItsObject) {
  for (const CheckCase& one : read_cases("cases.txt")) {
    EXPECT_FALSE(one.not_applicable.empty()) << one.id;
    expect_verdict(one, one.not_applicable, Verdict::kNotApplicable);
  }
}

TEST(Checks, EachHasACase) {
  std::set<std::string> covered;
  for (const CheckCase& one : read_cases("cases.txt"))
    EXPECT_TRUE(covered.insert(one.id).second) << one.id << " stands twice";
  for (const Check* check : all_checks()) {
    EXPECT_TRUE(covered.contains(std::string(check->id))) << check->id;
  }
}

TEST(Checks, EachRowIsCompleteAndItsIdIsItsOwn) {
  std::set<std::string_view> ids;
  for (const Check* check : all_checks()) {
    EXPECT_TRUE(ids.insert(check->id).second) << check->id << " stands twice";
    for (const std::string_view text : {check->title, check->why, check->effect, check->fix, check->items})
      EXPECT_FALSE(text.empty()) << check->id;
    EXPECT_GE(check->risk, 0) << check->id;
    EXPECT_LT(check->risk, 1) << check->id;
    EXPECT_TRUE(check->level == Level::kInfo || check->risk > 0) << check->id << " warns, but costs nothing";
  }
  EXPECT_GE(ids.size(), 150u);
}

}  // namespace
}  // namespace cheetah::doctor
