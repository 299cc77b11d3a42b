// SPDX-License-Identifier: MIT
#include "doctor/report.h"
#include "doctor/measure.h"

#include <gtest/gtest.h>

#include <set>

#include "base/json.h"

#include "doctor/checklist.h"
#include "doctor/diff.h"
#include "doctor/fixture.h"

namespace cheetah::doctor {
namespace {

const std::vector<Layer> kMachine = {Layer::kHost, Layer::kGpu, Layer::kNetwork, Layer::kStorage,
    Layer::kContainer, Layer::kJob, Layer::kConfiguration};

std::vector<std::string> troubles(const Report& report) {
  std::vector<std::string> ids;
  for (const Finding& finding : report.findings)
    if (finding.risk > 0) ids.emplace_back(finding.check->id);
  return ids;
}

Machine faulty() {
  Machine machine = Machine::healthy();
  load_tree(read_test_file("faults.tree"), *machine.source);
  return machine;
}

TEST(Report, AHealthyServerHasNoTrouble) {
  const Report report = examine(Machine::healthy().facts(), {.layers = kMachine});
  EXPECT_EQ(troubles(report), std::vector<std::string>());
  EXPECT_EQ(report.goodput_at_risk, 0);
}

TEST(Report, AsAPageHasEveryFindingWithItsFix) {
  const Report report = examine(faulty().facts(), {.layers = kMachine});
  const std::string page = report_html(report, "2026-01-31T12:00:00Z");
  for (const std::string& id : troubles(report))
    EXPECT_NE(page.find("<section id=\"" + id + "\">"), std::string::npos) << id;
  EXPECT_NE(page.find("2026-01-31</title>"), std::string::npos);
  EXPECT_EQ(page.find("{it}"), std::string::npos);
}

TEST(Report, TwentyPlantedFaultsAreFoundTheDearestFirst) {
  const Report report = examine(faulty().facts(), {.layers = kMachine});
  const std::vector<std::string> expected = {
      "GPU-09",  // driver mismatch
      "GPU-05",  // ECC errors
      "CTR-05",  // cgroup throttling
      "GPU-12",  // throttling
      "JOB-02",  // memlock
      "JOB-03",  // NUMA affinity
      "HST-24",  // IOMMU
      "HST-37",  // ACS
      "GPU-15",  // PCIe link at x8
      "CTR-08",  // data on overlayfs
      "CFG-01",  // misspelt NCCL variables
      "HST-08",  // governor
      "HST-14",  // interrupts
      "NET-05",  // MTU
      "HST-01",  // swap, 1 GiB of 2 TiB
      "HST-04",  // huge pages
      "STO-02",  // read-ahead
      "STO-01",  // NVMe scheduler
      "CTR-25",  // open files
      "GPU-03",  // persistence
  };
  EXPECT_EQ(troubles(report), expected);
  EXPECT_GT(report.goodput_at_risk, 0.95);
}

TEST(Report, ASnapshotExaminedElsewhereGivesTheSameReport) {
  const Machine machine = faulty();
  const Collected first = collect(
      machine.source, machine.intent, {.layer_limit = std::chrono::seconds(60), .counter_interval = {}});
  const Snapshot snapshot = parse_snapshot(snapshot_json(first.snapshot, first.facts.intent), "snapshot");
  const Collected second = collect(
      snapshot.source, snapshot.intent, {.layer_limit = std::chrono::seconds(60), .counter_interval = {}});
  EXPECT_EQ(report_json(examine(first.facts, {})), report_json(examine(second.facts, {})));
}

TEST(FixPlan, HoldsTheCommandsAndTheirUndo) {
  const Machine machine = faulty();
  const std::string plan =
      fix_plan(examine(machine.facts(), {.layers = kMachine, .read = machine.source.get()}));
  for (const char* line : {"run swapoff /dev/nvme8n1p3", "run swapon /dev/nvme8n1p3",
           "/sys/class/net/rail1/mtu", "put 'none' 'bfq' ", "put 'bfq' 'none' ",
           "run nvidia-smi -i 0000:13:00.0 -pm 1", "iommu=pt", "apply) apply"})
    EXPECT_NE(plan.find(line), std::string::npos) << line;
}

TEST(FixPlan, ANameThatIsNoPlainWordNeverReachesTheShell) {
  Machine machine = Machine::healthy();
  machine.source->set("sys/class/net/x\nreboot #/operstate", "up\n");
  machine.source->set("sys/class/net/x\nreboot #/speed", "400000\n");
  machine.source->set("sys/class/net/x\nreboot #/mtu", "1500\n");
  machine.source->set_link("sys/class/net/x\nreboot #/device", "../0000:01:00.0");
  const std::string plan =
      fix_plan(examine(machine.facts(), {.layers = {Layer::kNetwork}, .read = machine.source.get()}));
  for (const std::string_view line : lines_of(plan)) EXPECT_NE(trimmed(line).substr(0, 6), "reboot") << plan;
}

bool is_uri_reference(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("-._~/%:").find(static_cast<char>(c)) != std::string_view::npos;
  });
}

// The rules of the 2.1.0 schema and of §3.27 that our part of it is under.
void expect_valid(const Json& sarif) {
  EXPECT_EQ(sarif.at("version"), "2.1.0");
  const Json& run = sarif.at("runs").at(0);
  const Json& driver = run.at("tool").at("driver");
  EXPECT_FALSE(driver.at("name").get<std::string>().empty());
  EXPECT_FALSE(driver.at("version").get<std::string>().empty());
  std::set<std::string> ids;
  for (const Json& rule : driver.at("rules")) {
    EXPECT_TRUE(ids.insert(rule.at("id").get<std::string>()).second);
    for (const char* text : {"shortDescription", "fullDescription", "help"})
      EXPECT_FALSE(rule.at(text).at("text").get<std::string>().empty());
  }
  for (const Json& result : run.at("results")) {
    const auto index = result.at("ruleIndex").get<size_t>();
    ASSERT_LT(index, driver.at("rules").size());
    EXPECT_EQ(driver.at("rules").at(index).at("id"), result.at("ruleId"));
    EXPECT_FALSE(result.at("message").at("text").get<std::string>().empty());
    const bool fails = result.at("kind") == "fail";
    EXPECT_TRUE(fails || result.at("kind") == "informational");
    EXPECT_EQ(result.at("level") == "none", !fails);
    EXPECT_TRUE(
        result.at("level") == "none" || result.at("level") == "warning" || result.at("level") == "error");
    EXPECT_GE(result.at("rank").get<double>(), 0);
    EXPECT_LE(result.at("rank").get<double>(), 100);
    for (const Json& location : result.at("locations")) {
      if (const auto place = location.find("physicalLocation"); place != location.end()) {
        const Json& artifact = place->at("artifactLocation");
        EXPECT_TRUE(is_uri_reference(artifact.at("uri").get<std::string>())) << artifact.dump();
        EXPECT_TRUE(run.at("originalUriBaseIds").contains(artifact.at("uriBaseId").get<std::string>()));
      } else {
        EXPECT_FALSE(
            location.at("logicalLocations").at(0).at("fullyQualifiedName").get<std::string>().empty());
      }
    }
  }
}

TEST(Sarif, IsValidForHealthyAndForFaultyMachines) {
  expect_valid(Json::parse(report_sarif(examine(Machine::healthy().facts(), {}), "1.2.3")));
  const std::string sarif = report_sarif(examine(faulty().facts(), {.layers = kMachine}), "1.2.3");
  expect_valid(Json::parse(sarif));
  for (const char* part :
      {"\"version\": \"2.1.0\"", "\"ruleId\": \"GPU-09\"", "\"level\": \"error\"", "\"uri\": \"proc/swaps\""})
    EXPECT_NE(sarif.find(part), std::string::npos) << part;
}

TEST(Text, SaysWhatWasFoundWhyAndHowToMendIt) {
  const Machine machine = faulty();
  const std::string text =
      report_text(examine(machine.facts(), {.layers = kMachine, .read = machine.source.get()}), {});
  for (const char* part : {"FAIL HST-01 memory has been swapped out: /dev/nvme8n1p3 (1.0 GiB used)",
           "read    proc/swaps", "now     swapoff /dev/nvme8n1p3", "goodput at risk: "})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  EXPECT_EQ(text.find("= read"), std::string::npos) << text;
}

TEST(Diff, HostsThatDriftedApartAreToldApart) {
  Machine other = Machine::healthy();
  apply("set proc/sys/kernel/osrelease 6.5.0-14-generic", other);
  apply("sub cheetah/nvml |driver=580.65.06|driver=570.10|", other);
  const std::vector<HostFactsOf> hosts = {{"a", Machine::healthy().facts()}, {"b", other.facts()}};
  const auto found = differences(hosts);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].key, "kernel");
  EXPECT_EQ(found[0].values, std::vector<std::string>({"6.8.0-45-generic", "6.5.0-14-generic"}));
  EXPECT_EQ(found[1].key, "driver");
  EXPECT_TRUE(differences({hosts[0], hosts[0]}).empty());
  const std::string table = difference_table(hosts, found);
  EXPECT_NE(table.find("b: 6.5.0-14-generic"), std::string::npos) << table;
}

TEST(Diff, WhatIsEachHostsOwnIsNoDifference) {
  Machine other = Machine::healthy();
  apply("sub proc/cmdline |root=|root=UUID=1234-|", other);
  EXPECT_TRUE(differences({{"a", Machine::healthy().facts()}, {"b", other.facts()}}).empty());
  apply("sub cheetah/nvml |gpu.*.power.limit=700|gpu.*.power.limit=500|", other);
  apply("set proc/sys/net/ipv4/tcp_rmem 4096 131072 6291456", other);
  const auto found = differences({{"a", Machine::healthy().facts()}, {"b", other.facts()}});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].values[1], "8 x 500");
}

TEST(Checklist, EveryItemIsAnsweredByAChecksOrByAPerson) {
  int questions = 0;
  EXPECT_GE(checklist_items().size(), 175u);
  for (const ChecklistItem& item : checklist_items()) {
    EXPECT_FALSE(section_of(item.id).empty()) << item.id;
    EXPECT_FALSE(item.question.empty()) << item.id;
    if (item.answer == Answer::kQuestion) {
      ++questions;
    } else {
      EXPECT_FALSE(checks_for(item.id).empty()) << item.id;
    }
  }
  EXPECT_GT(questions, 10);
  for (const Check* check : all_checks())
    for (const std::string_view item : split(check->items, ',')) {
      const auto items = checklist_items();
      EXPECT_TRUE(
          std::any_of(items.begin(), items.end(), [&](const ChecklistItem& one) { return one.id == item; }))
          << check->id << " names " << item;
    }
}

TEST(Checklist, AnswersAreKeptAndComeUpForReview) {
  Acknowledgements all;
  all["A06"] = {"A06", "done", "Ada \"the\" Admin", "2026-01-01", "monthly", 30};
  const Acknowledgements back = parse_acknowledgements(acknowledgements_yaml(all), "answers");
  ASSERT_EQ(back.size(), 1u);
  EXPECT_EQ(back.at("A06").by, "Ada \"the\" Admin");
  const auto items = checklist_items();
  const ChecklistItem& item =
      *std::find_if(items.begin(), items.end(), [](const ChecklistItem& one) { return one.id == "A06"; });
  EXPECT_EQ(state_of(item, back, "2026-01-15").substr(0, 4), "done");
  EXPECT_EQ(state_of(item, back, "2026-03-15").substr(0, 14), "due for review");
  EXPECT_EQ(state_of(item, {}, "2026-03-15"), "open");
  EXPECT_THROW(parse_acknowledgements("- id: Z99\n  decision: done\n", "answers"), Error);
  EXPECT_THROW(parse_acknowledgements("- id: A06\n  decision: maybe\n", "answers"), Error);
}

TEST(ResultsTable, SaysTheUnitOfEachResult) {
  const std::string table = results_table(parse_measured(
      "memory.read.0=2.147e+10\ncore.stolen_share=0.25\ncore.wake_us.p50=66.95\ngpu.0.gemm_bf16=8.09e+14\n"
      "gpu.0.pinned_in=there is no CUDA driver\nnot a result\n"));
  for (const char* text : {"21.47 GB/s", "25.0 %", "66.95 us", "809 TFLOP/s", "there is no CUDA driver"})
    EXPECT_NE(table.find(text), std::string::npos) << text << " in\n" << table;
}

}  // namespace
}  // namespace cheetah::doctor
