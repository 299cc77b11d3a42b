// SPDX-License-Identifier: MIT
// Healthy machines of many makes raise nothing; the same machines with a fault planted raise what it is.
#include <gtest/gtest.h>

#include "doctor/hosts_fixture.h"
#include "doctor/report.h"

namespace cheetah::doctor {
namespace {

TEST(Hosts, HealthyOnesRaiseNothing) {
  const std::vector<std::string> names = host_names();
  EXPECT_GE(names.size(), 25u);
  for (const std::string& name : names) {
    const Report report = examine(read_host(name).facts());
    for (const Finding& finding : report.findings) {
      EXPECT_NE(finding.status, Status::kFail)
          << name << ": " << finding.check->id << " " << finding.outcome.found;
      EXPECT_NE(finding.status, Status::kWarn)
          << name << ": " << finding.check->id << " " << finding.outcome.found;
    }
    EXPECT_EQ(report.goodput_at_risk, 0) << name;
    EXPECT_TRUE(report.problems.empty()) << name;
  }
}

void expect_found(const std::string& file) {
  std::map<std::string, Machine> healthy;
  int missed = 0, planted = 0;
  for (const HostFault& fault : host_faults(file)) {
    auto at = healthy.find(fault.host);
    if (at == healthy.end()) at = healthy.emplace(fault.host, read_host(fault.host)).first;
    Machine machine = at->second;
    machine.source = std::make_shared<MemorySource>(*at->second.source);
    for (const std::string& operation : fault.operations)
      EXPECT_TRUE(apply(operation, machine)) << fault.host << ": " << fault.check << ": " << operation;
    const Check* check = find_check(fault.check);
    ASSERT_NE(check, nullptr) << fault.check;
    const Outcome outcome = examine_one(*check, machine.facts()).outcome;
    ++planted;
    const bool found = outcome.verdict == Verdict::kBad && contains(outcome.found, fault.culprit);
    missed += found ? 0 : 1;
    if (!found)
      ADD_FAILURE() << fault.host << ": " << fault.check << " should name '" << fault.culprit
                    << "', says: " << outcome.found;
  }
  EXPECT_LE(missed * 100, planted * 3);
}

TEST(Hosts, AnEmptyFileIsNeverAPass) {
  Machine machine = read_host("dgx_h100");
  std::vector<std::string> paths;
  for (const auto& [path, text] : machine.source->texts())
    if (path.starts_with("sys/") || path.starts_with("proc/")) paths.push_back(path);
  for (const std::string& path : paths) machine.source->set(path, "");
  const Facts facts = machine.facts();
  for (const char* id : {"HST-01", "HST-04", "HST-05", "HST-08", "HST-10", "HST-22", "HST-26", "HST-30",
           "HST-32", "STO-01", "NET-01", "NET-19", "CTR-05"}) {
    const Outcome outcome = examine_one(*find_check(id), facts).outcome;
    EXPECT_NE(outcome.verdict, Verdict::kGood) << id << ": " << outcome.found;
  }
}

TEST(Hosts, PlantedFaultsAreFoundAndNamed) { expect_found("faults.txt"); }
TEST(Hosts, PlantedMessagesAreFoundAndNamed) { expect_found("log_faults.txt"); }

}  // namespace
}  // namespace cheetah::doctor
