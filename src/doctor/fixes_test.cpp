// SPDX-License-Identifier: MIT
// Every fix of every check is applied to a machine of files and undone again; undoing restores each byte.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <set>

#include "base/run_tool.h"
#include "base/temp_dir.h"
#include "doctor/fixes/mend.h"
#include "doctor/fixture.h"
#include "doctor/report.h"

namespace cheetah::doctor {
namespace {

namespace fs = std::filesystem;

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// All files below a folder, by path.
std::map<std::string, std::string> contents(const fs::path& root) {
  std::map<std::string, std::string> all;
  for (const auto& entry : fs::recursive_directory_iterator(root))
    if (entry.is_regular_file()) all[fs::relative(entry.path(), root).string()] = read_file(entry.path());
  return all;
}

void write_file(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

// The programs that fixes run, each as strict as the real one about its arguments; their state is files.
class Tools {
 public:
  explicit Tools(fs::path root) : state_(std::move(root)) {}

  std::pair<int, std::string> operator()(const std::vector<std::string>& command) const {
    const std::map<std::string, size_t> kLeast = {{"nvidia-smi", 4}, {"systemctl", 3}, {"setpci", 4},
        {"modprobe", 2}, {"swapoff", 2}, {"swapon", 2}, {"mount", 4}, {"tuned-adm", 3},
        {"nvidia-modprobe", 4}};
    const auto least = kLeast.find(command[0]);
    if (least == kLeast.end() || command.size() < least->second) return {127, command[0] + ": what is that?"};
    if (command[0] == "systemctl") return unit(command);
    if (command[0] == "modprobe") return module(command);
    if (command[0] == "swapoff" || command[0] == "swapon")
      return set("swap" + command[1], command[0] == "swapon" ? "on" : "off");
    if (command[0] == "mount") return set("mount" + command[3], command[2]);
    if (command[0] == "tuned-adm") return set("tuned", command[2]);
    if (command[0] == "setpci") return bits(command);
    if (command[0] == "nvidia-smi") return gpu(command);
    return {0, ""};  // nvidia-modprobe makes device files: no state of ours
  }

 private:
  std::pair<int, std::string> set(const std::string& name, const std::string& value) const {
    write_file(state_ / name, value);
    return {0, ""};
  }
  std::pair<int, std::string> unit(const std::vector<std::string>& words) const {
    const std::string& verb = words[1];
    if (verb == "restart") return {0, ""};
    const bool on = verb == "start" || verb == "enable";
    if (!on && verb != "stop" && verb != "disable") return {1, "Unknown command verb"};
    return set((verb == "start" || verb == "stop" ? "runs/" : "enabled/") + words[2], on ? "yes" : "no");
  }
  std::pair<int, std::string> module(const std::vector<std::string>& words) const {
    const bool removes = words[1] == "-r";
    return set("modules/" + words[removes ? 2 : 1], removes ? "no" : "yes");
  }
  std::pair<int, std::string> bits(const std::vector<std::string>& words) const {
    if (words[1] != "-s" || !starts_with(words[3], "ECAP_ACS+0x6.w=")) return {1, "bad register"};
    return set("acs/" + words[2], words[3]);
  }
  std::pair<int, std::string> gpu(const std::vector<std::string>& words) const {
    if (words[1] != "-i" || words[2].size() < 12) return {6, "no such device"};
    const std::string& what = words[3];
    if (what == "-rgc") return set("gpu/" + words[2] + "/clocks", "free");
    if (words.size() < 5) return {2, "an argument is missing"};
    if (what == "-lgc") return set("gpu/" + words[2] + "/clocks", words[4]);
    if (what == "-c" || what == "-pm" || what == "-e" || what == "-pl")
      return set("gpu/" + words[2] + "/" + what, words[4]);
    return {2, "unknown option"};
  }
  fs::path state_;
};

struct Bad {
  std::string id;
  Facts facts;
  Machine machine;
  Finding finding;
};

std::vector<Bad> all_bad() {
  std::vector<Bad> all;
  for (const CheckCase& one : read_cases("cases.txt")) {
    Machine machine = Machine::healthy();
    machine.source->set("etc/x", "");  // a folder of its own
    for (const std::string& operation : one.bad) apply(operation, machine);
    Facts facts = machine.facts();
    Finding finding = examine_one(*find_check(one.id), facts, machine.source.get());
    all.push_back({one.id, std::move(facts), machine, std::move(finding)});
  }
  return all;
}

// Checks whose commands are never offered, each with a sentence that says why.
const std::set<std::string> kRefusals = {
    "GPU-06", "GPU-23", "NET-14", "STO-12", "GPU-21", "HST-38", "NET-34"};

TEST(Fixes, EveryCommandIsDoneAndUndoneOrRefusedWithASentence) {
  for (const Bad& bad : all_bad()) {
    if (find_check(bad.id)->fix_kind != FixKind::kCommand) continue;
    const Fix& fix = bad.finding.fix;
    if (fix.steps.empty()) {
      EXPECT_TRUE(kRefusals.contains(bad.id) || !fix.refusal.empty()) << bad.id;
      EXPECT_FALSE(fix.refusal.empty()) << bad.id << " has neither steps nor a reason";
      continue;
    }
    const TempDir folder;
    const fs::path root = fs::path(folder.path()) / "root", journal = fs::path(folder.path()) / "journal";
    for (const Step& step : fix.steps)
      if (step.kind == Step::Kind::kWrite)
        write_file(root / step.path, bad.machine.source->read(step.path, 1 << 20).text);
    write_file(root / "proc/version", "another file\n");
    for (const Step& step : fix.steps)  // what the undo of a command says is what stands before it
      if (step.kind == Step::Kind::kRun && !step.undo.empty()) Tools(root / "tools")(step.undo);
    const auto before = contents(root);
    Mender mender(root.string(), journal.string(), Tools(root / "tools"));
    for (const Step& step : fix.steps) {
      const Done done = mender.apply(bad.id, step);
      EXPECT_TRUE(done.ok) << bad.id << ": " << shell_line(step) << ": " << done.why;
    }
    const bool any_state = std::any_of(fix.steps.begin(), fix.steps.end(),
        [](const Step& step) { return step.kind != Step::Kind::kRun || !step.undo.empty(); });
    EXPECT_EQ(contents(root) != before, any_state) << bad.id;
    auto entries = mender.journal();
    EXPECT_EQ(entries.size(), fix.steps.size()) << bad.id;
    std::reverse(entries.begin(), entries.end());
    for (const JournalEntry& entry : entries) {
      const Done done = mender.undo(entry);
      EXPECT_TRUE(done.ok) << bad.id << ": " << undo_line(entry.step) << ": " << done.why;
    }
    EXPECT_EQ(contents(root), before) << bad.id;
  }
}

TEST(Fixes, NoPlaceholderReachesAnybody) {
  for (const Bad& bad : all_bad()) {
    Report report;
    report.findings.push_back(bad.finding);
    for (const std::string& text : {report_text(report, {}), report_markdown(report), report_json(report),
             report_sarif(report, "1.2.3"), fix_plan(report)})
      for (const char* mark : {"{it}", "{was}"}) EXPECT_FALSE(contains(text, mark)) << bad.id << "\n" << text;
  }
}

Fix fix_of(const std::string& id, const std::vector<std::string>& operations) {
  Machine machine = Machine::healthy();
  for (const std::string& operation : operations) EXPECT_TRUE(apply(operation, machine)) << operation;
  return examine_one(*find_check(id), machine.facts(), machine.source.get()).fix;
}

TEST(Fixes, SwapStaysOnWhenMemoryHasNoRoomForIt) {
  const std::string swaps =
      "set proc/swaps Filename Type Size Used Priority\\n/dev/sda2 partition 268435456 ";
  const Fix full = fix_of("HST-01",
      {swaps + "201326592 -2", "set proc/meminfo MemTotal: 527984548 kB\\nMemAvailable: 20971520 kB"});
  EXPECT_TRUE(full.steps.empty());
  EXPECT_TRUE(contains(full.refusal, "192.0 GiB are swapped out and 20.0 GiB are available")) << full.refusal;
  const Fix room = fix_of("HST-01", {swaps + "1048576 -2"});
  ASSERT_EQ(room.steps.size(), 1u);
  EXPECT_EQ(shell_line(room.steps[0]), "swapoff /dev/sda2");
  EXPECT_EQ(undo_line(room.steps[0]), "swapon /dev/sda2");
}

TEST(Fixes, AFullPoolOfHugePagesIsNeverMadeSmaller) {
  const Fix fix =
      fix_of("HST-07", {"set sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages 16384",
                           "set sys/devices/system/node/node0/hugepages/hugepages-2048kB/free_hugepages 0",
                           "set sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages 16384",
                           "set sys/devices/system/node/node1/hugepages/hugepages-2048kB/free_hugepages 12"});
  EXPECT_TRUE(fix.steps.empty());
  EXPECT_FALSE(fix.refusal.empty());
}

TEST(Fixes, AnUnstableClockIsNotForcedBack) {
  const Fix fix =
      fix_of("HST-26", {"set sys/devices/system/clocksource/clocksource0/current_clocksource hpet",
                           "set sys/devices/system/clocksource/clocksource0/available_clocksource hpet tsc",
                           "set cheetah/dmesg [ 5.0] clocksource: Marking clocksource 'tsc' as unstable "
                           "because the skew is too large:"});
  EXPECT_TRUE(fix.steps.empty());
  EXPECT_TRUE(contains(fix.refusal, "do not force them")) << fix.refusal;
}

TEST(Fixes, AcsKeepsTheBitsThatDoNotRedirect) {
  const Fix fix =
      fix_of("HST-37", {"set sys/bus/pci/devices/0000:21:00.0/config %100 0d00010000001d00\\n%fff 00"});
  ASSERT_GE(fix.steps.size(), 1u);
  EXPECT_EQ(shell_line(fix.steps[0]), "setpci -s 0000:21:00.0 ECAP_ACS+0x6.w=0011");
  EXPECT_EQ(undo_line(fix.steps[0]), "setpci -s 0000:21:00.0 ECAP_ACS+0x6.w=001d");
}

TEST(Fixes, AContainerLeavesItsNodesSettingsAlone) {
  const Fix fix = fix_of("HST-12", {"set proc/sys/kernel/numa_balancing 1", "set .dockerenv x"});
  EXPECT_TRUE(fix.steps.empty());
  EXPECT_TRUE(contains(fix.refusal, "docker container")) << fix.refusal;
}

TEST(Fixes, WhatWasChangedByOthersIsLeftAlone) {
  const TempDir folder;
  const fs::path root = fs::path(folder.path()) / "root";
  write_file(root / "proc/sys/vm/swappiness", "60\n");
  Mender mender(root.string(), (fs::path(folder.path()) / "journal").string(), no_commands("root"));
  const Step step{Step::Kind::kWrite, When::kNow, "proc/sys/vm/swappiness", "1\n", "60\n", {}, {}};
  Step stale = step;
  stale.was = "30\n";
  EXPECT_FALSE(mender.apply("HST-02", stale).ok);
  EXPECT_EQ(read_file(root / "proc/sys/vm/swappiness"), "60\n");
  EXPECT_TRUE(mender.apply("HST-02", step).ok);
  write_file(root / "proc/sys/vm/swappiness", "7\n");
  EXPECT_FALSE(mender.undo(mender.journal()[0]).ok);
  EXPECT_EQ(read_file(root / "proc/sys/vm/swappiness"), "7\n");
}

TEST(Fixes, ALinkOutOfTheRootIsNotFollowed) {
  const TempDir folder;
  const fs::path root = fs::path(folder.path()) / "root";
  write_file(fs::path(folder.path()) / "outside", "60\n");
  fs::create_directories(root / "proc/sys/vm");
  fs::create_symlink("../../../../outside", root / "proc/sys/vm/swappiness");
  Mender mender(root.string(), (fs::path(folder.path()) / "journal").string(), no_commands("root"));
  EXPECT_FALSE(
      mender
          .apply("HST-02", {Step::Kind::kWrite, When::kNow, "proc/sys/vm/swappiness", "1\n", "60\n", {}, {}})
          .ok);
  EXPECT_EQ(read_file(fs::path(folder.path()) / "outside"), "60\n");
}

TEST(Fixes, ADamagedJournalIsRefusedByItsLine) {
  EXPECT_THROW(parse_journal("{\"check\":1}\n", "journal"), Error);
  EXPECT_THROW(parse_journal("\n{", "journal"), Error);
  EXPECT_TRUE(parse_journal("\n\n", "journal").empty());
}

// The script does the same to the same files, with a shell alone.
TEST(FixPlan, AppliesPersistsAndUndoesOnATreeOfFiles) {
  Machine machine = Machine::healthy();
  load_tree(read_test_file("faults.tree"), *machine.source);
  const Facts facts = machine.facts();
  const TempDir folder;
  const fs::path root = fs::path(folder.path()) / "root", plan = fs::path(folder.path()) / "plan.sh";
  const Report report = examine(facts, {.layers = {}, .read = machine.source.get()});
  for (const Finding& finding : report.findings)
    for (const Step& step : finding.fix.steps)
      if (step.kind == Step::Kind::kWrite)
        write_file(root / step.path, machine.source->read(step.path, 1 << 20).text);
  const auto before = contents(root);
  write_file(plan, fix_plan(report));
  const auto run = [&](const char* verb) {
    const ToolResult result = run_tool({"env", "ROOT=" + root.string(), "sh", plan.string(), verb},
        {.time = std::chrono::minutes(2), .with_errors = true});
    EXPECT_EQ(result.exit_code, 0) << result.output;
  };
  run("apply");
  EXPECT_EQ(read_file(root / "sys/class/net/rail1/mtu"), "9000\n");
  EXPECT_EQ(read_file(root / "sys/block/nvme3n1/queue/scheduler"), "none\n");
  run("persist");
  EXPECT_TRUE(fs::exists(root / "etc/udev/rules.d/90-cheetah-STO-01.rules"));
  run("undo");
  EXPECT_EQ(contents(root), before);
}

}  // namespace
}  // namespace cheetah::doctor
