// SPDX-License-Identifier: MIT
// Hostile trees: nothing hangs, nothing is followed out of the root, nothing crashes.
#include "doctor/source.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "doctor/fixture.h"
#include "doctor/report.h"

namespace cheetah::doctor {
namespace {

namespace fs = std::filesystem;

class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "doctor-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~Folder() { fs::remove_all(path_); }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  std::string path() const { return path_.string(); }
  void write(const std::string& name, const std::string& text) const {
    fs::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name, std::ios::binary) << text;
  }

 private:
  fs::path path_;
};

TEST(FolderSource, ReadsAFileAndListsAFolder) {
  const Folder folder;
  folder.write("proc/swaps", "text\n");
  folder.write("proc/uptime", "1 2\n");
  const FolderSource source(folder.path());
  EXPECT_EQ(source.read("proc/swaps", 100).text, "text\n");
  EXPECT_EQ(source.read("proc/swaps", 2).text, "te");
  EXPECT_EQ(source.list("proc"), std::vector<std::string>({"swaps", "uptime"}));
  EXPECT_EQ(source.read("proc/none", 100).absence, Absence::kMissing);
  EXPECT_TRUE(source.list("none").empty());
}

TEST(FolderSource, NeverLeavesTheRoot) {
  const Folder folder, outside;
  outside.write("secret", "secret");
  folder.write("etc/ok", "inside");
  fs::create_symlink(outside / "secret", folder / "etc/absolute");
  fs::create_symlink("../../../../../../../../etc/passwd", folder / "etc/relative");
  fs::create_symlink(outside.path(), folder / "sys");
  fs::create_symlink("etc/ok", folder / "good");
  const FolderSource source(folder.path());
  for (const char* path :
      {"etc/absolute", "etc/relative", "sys/secret", "../secret", "etc/../../secret", "/etc/passwd"})
    EXPECT_FALSE(source.read(path, 100).ok() && source.read(path, 100).text != "inside") << path;
  EXPECT_TRUE(source.list("sys").empty());
  EXPECT_EQ(source.read("good", 100).text, "inside");
}

TEST(FolderSource, DoesNotWaitForPipesNorReadDevices) {
  const Folder folder;
  fs::create_directories(folder / "proc");
  ASSERT_EQ(mkfifo((folder / "proc/swaps").c_str(), 0600), 0);
  const FolderSource source(folder.path());
  EXPECT_EQ(source.read("proc/swaps", 100).absence, Absence::kUnreadable);
  EXPECT_EQ(source.read("proc", 100).absence, Absence::kUnreadable);
}

TEST(FolderSource, LinksInACircleAreNoFile) {
  const Folder folder;
  fs::create_symlink("b", folder / "a");
  fs::create_symlink("a", folder / "b");
  fs::create_directories(folder / "deep");
  fs::create_symlink("../deep", folder / "deep/again");
  const FolderSource source(folder.path());
  EXPECT_FALSE(source.read("a", 100).ok());
  EXPECT_EQ(source.list("deep/again/again/again"), std::vector<std::string>({"again"}));
}

TEST(FolderSource, ARootThatIsNoFolderIsAnError) {
  EXPECT_THROW(FolderSource("/no/such/root"), Error);
  EXPECT_THROW(FolderSource("/dev/null"), Error);
}

TEST(Examine, AnEmptyRootGivesNoTrouble) {
  const Folder folder;
  const auto source = std::make_shared<FolderSource>(folder.path());
  for (const Finding& finding : examine(collect(source, {}).facts).findings)
    EXPECT_TRUE(finding.status == Status::kNotApplicable || finding.status == Status::kPass ||
                finding.status == Status::kInfo)
        << finding.check->id << ": " << finding.outcome.found;
}

TEST(Examine, HugeFilesAndManyEntriesAreCut) {
  const Folder folder;
  folder.write("proc/meminfo", std::string(8 << 20, 'x'));
  folder.write("proc/modules", std::string(4 << 20, '\n'));
  folder.write("proc/self/mountinfo", std::string(3 << 20, ' '));
  folder.write("sys/devices/system/cpu/online", "0-99999999999999999999");
  folder.write("proc/interrupts", "CPU0\n" + std::string(1 << 20, '9') + ": 1 nvidia\n");
  for (int i = 0; i < 800; ++i) folder.write("sys/class/net/n" + std::to_string(i) + "/operstate", "up");
  const auto source = std::make_shared<FolderSource>(folder.path());
  const Collected all =
      collect(source, {}, {.layer_limit = std::chrono::seconds(60), .counter_interval = {}});
  EXPECT_LE(all.facts.network.nics->size(), 512u);
  EXPECT_FALSE(examine(all.facts).findings.empty());
}

TEST(Examine, ACollectorThatHangsIsLeftOut) {
  struct Stuck : MemorySource {
    Text read(const std::string& path, int64_t limit) const override {
      if (path == "proc/cpuinfo") std::this_thread::sleep_for(std::chrono::minutes(2));
      return MemorySource::read(path, limit);
    }
  };
  const auto begin = std::chrono::steady_clock::now();
  const Collected all = collect(
      std::make_shared<Stuck>(), {}, {.layer_limit = std::chrono::milliseconds(500), .counter_interval = {}});
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::minutes(1));
  const auto& problems = all.facts.problems;
  EXPECT_NE(std::find(problems.begin(), problems.end(), "the host facts took too long and were left out"),
      problems.end());
}

// Any file of the server may say anything.
TEST(Examine, AnyTextAnywhereNeitherCrashesNorThrows) {
  const Machine healthy = Machine::healthy();
  std::vector<std::string> paths;
  for (const auto& [path, text] : healthy.source->texts())
    if (!path.starts_with("sys/devices/system/cpu/cpu")) paths.push_back(path);
  const std::vector<std::string> nasty = {"", "\n", std::string("\0\0\0", 3), "-1", "18446744073709551616",
      "nan", "0-16383", "[", "]", "[]", "=", ":", ",", "%", "{}", "\xff\xfe", std::string(70000, '['),
      std::string(70000, '7'), "a=b=c", "/", ".", "gpu.0.=", "gpu.255.name=x\ngpu.999.name=y",
      "N0=1 N=2 N99=3", "Max  ", "some avg60=", "1 (a) b", "99999999999999 1"};
  EXPECT_TRUE(rc::check("examine", [&] {
    Machine machine = healthy;
    machine.source = std::make_shared<MemorySource>(*healthy.source);
    for (int i = 0; i < 8; ++i) {
      const std::string path = *rc::gen::elementOf(paths);
      const std::string text = *rc::gen::oneOf(rc::gen::elementOf(nasty), rc::gen::arbitrary<std::string>());
      if (path != "pod.yaml" && path != "metrics.txt" && path != "trace.csv" && path != "counters.csv")
        machine.source->set(path, text);
    }
    const Report report = examine(machine.facts());
    for (const Finding& finding : report.findings)
      RC_ASSERT(finding.outcome.found.find("the check failed") == std::string::npos);
    RC_ASSERT(!report_json(report).empty());
    RC_ASSERT(!fix_plan(report).empty());
  }));
}

}  // namespace
}  // namespace cheetah::doctor
