// SPDX-License-Identifier: MIT
#include "cluster/node/supervisor.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "base/error.h"
#include "base/temp_dir.h"
#include "cluster/node/hang_watch.h"

namespace cheetah::cluster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

Time now() { return std::chrono::steady_clock::now(); }

bool comes_true(const std::function<bool()>& condition, Duration limit = seconds(10)) {
  for (const Time until = now() + limit; now() < until; std::this_thread::sleep_for(milliseconds(10)))
    if (condition()) return true;
  return condition();
}

ProcessPlan sleeper(const std::string& name, const std::filesystem::path& folder) {
  return {.name = name, .command = {"/bin/sleep", "60"}, .log_file = (folder / (name + ".log")).string()};
}

TEST(Supervisor, SurvivesItsFolder) {
  const TempDir temp;
  const std::filesystem::path folder = std::filesystem::path(temp.path()) / "logs";
  std::filesystem::create_directory(folder);
  Supervisor supervisor({sleeper("a", folder), sleeper("b", folder)});
  supervisor.poll(now());
  std::filesystem::remove_all(folder);
  const pid_t first = supervisor.states()[0].pid, other = supervisor.states()[1].pid;
  kill(first, SIGKILL);
  EXPECT_TRUE(comes_true([&] {
    supervisor.poll(now());
    return supervisor.states()[0].pid > 0 && supervisor.states()[0].pid != first;
  }));
  EXPECT_EQ(supervisor.states()[1].pid, other) << "the others go on";
}

TEST(Supervisor, TriesAStartThatFailsAgain) {
  const TempDir temp;
  int failures = 2;
  Supervisor supervisor({sleeper("a", temp.path())}, [&] {
    if (failures-- > 0) throw Error("no space is left on the disk");
  });
  const auto news = supervisor.poll(now());
  ASSERT_EQ(news.size(), 1u);
  EXPECT_NE(news[0].find("no space is left on the disk; tried again in"), std::string::npos) << news[0];
  EXPECT_TRUE(supervisor.poll(now()).empty()) << "not at once";
  EXPECT_TRUE(comes_true([&] {
    supervisor.poll(now());
    return supervisor.states()[0].pid > 0;
  }));
}

TEST(Supervisor, ReplacesAProcessThatHangs) {
  const TempDir temp;
  Supervisor supervisor({sleeper("a", temp.path())});
  supervisor.poll(now());
  const pid_t first = supervisor.states()[0].pid;
  kill(first, SIGSTOP);
  std::vector<std::string> news;
  supervisor.kill_hung("a", seconds(12), news);
  EXPECT_EQ(news, std::vector<std::string>{"a hangs: silent for 12 s, killed"});
  EXPECT_TRUE(comes_true([&] {
    supervisor.poll(now());
    return supervisor.states()[0].pid > 0 && supervisor.states()[0].pid != first;
  }));
}

TEST(Supervisor, EndsAsSoonAsItsProcessesHaveEnded) {
  const TempDir temp;
  Supervisor supervisor({sleeper("a", temp.path()), sleeper("b", temp.path())});
  supervisor.poll(now());
  const Time before = now();
  EXPECT_EQ(supervisor.stop(seconds(20)).size(), 2u);
  EXPECT_LT(now() - before, seconds(5));
}

// Each thread of a supervisor that dies sends the death signal once more: as a SIGTERM the second would end a
// process at once, in the middle of its streams.
TEST(Supervisor, ALostSupervisorAsksItsProcessesOnceToEnd) {
  const TempDir temp;
  const std::string log = temp.path() + "/a.log";
  const std::string script =
      "trap 'echo term >> $0.seen' TERM; trap 'echo hup >> $0.seen' HUP; echo ready >> $0.seen; "
      "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do sleep 0.1; done; echo end >> $0.seen";
  const pid_t supervising = fork();
  if (supervising == 0) {
    Supervisor supervisor({{.name = "a", .command = {"/bin/sh", "-c", script, log}, .log_file = log}});
    std::vector<std::thread> others;
    for (int i = 0; i < 4; ++i) others.emplace_back([] { pause(); });
    supervisor.poll(now());
    pause();
    _exit(0);
  }
  const auto seen = [&] {
    std::ifstream file(log + ".seen");
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  ASSERT_TRUE(comes_true([&] { return seen().find("ready") != std::string::npos; }));
  kill(supervising, SIGKILL);
  waitpid(supervising, nullptr, 0);
  EXPECT_TRUE(comes_true([&] { return seen().find("end") != std::string::npos; }));
  EXPECT_NE(seen().find("hup"), std::string::npos);
  EXPECT_EQ(seen().find("term"), std::string::npos);
}

class Hangs : public testing::Test {
 protected:
  Hangs() {
    process.name = worker.descriptor.name = "d1";
    process.pid = 7;
    process.since = start;
    worker.heard_at = start + seconds(2);
  }
  // Looks every second, as a supervisor does.
  bool hangs_at(int second) {
    bool found = false;
    for (; looked <= second; ++looked)
      found = !watch.look({process}, {worker}, start + seconds(looked)).empty();
    return found;
  }
  Time start = Time{} + std::chrono::hours(1);
  ProcessState process;
  SeenWorker worker;
  HangWatch watch;
  int looked = 0;
};

TEST_F(Hangs, AWorkerThatWasHeardAndIsSilentHangs) {
  EXPECT_FALSE(hangs_at(11));
  EXPECT_TRUE(hangs_at(12));
}

TEST_F(Hangs, AWorkerThatLoadsItsModelDoesNot) {
  worker.heard_at = start - seconds(5);  // its last life
  EXPECT_FALSE(hangs_at(300));
}

TEST_F(Hangs, ASupervisorThatStoodStillWaitsForNews) {
  EXPECT_FALSE(hangs_at(5));
  looked = 60;
  EXPECT_FALSE(hangs_at(69));
  EXPECT_TRUE(hangs_at(70));
}

TEST_F(Hangs, AWorkerIsBackOnceItIsHeardInItsNewLife) {
  ReturnWatch returns;
  const auto look = [&] { return returns.look({process}, {worker}); };
  EXPECT_TRUE(look().empty());  // its first life
  process.since = start + seconds(5);
  EXPECT_TRUE(look().empty());  // heard of in its last life only
  worker.heard_at = start + seconds(6);
  EXPECT_EQ(look(), std::vector<std::string>{process.name});
  EXPECT_TRUE(look().empty());  // told once
}

TEST(Health, NeedsEveryMemberAndOneThatDecodes) {
  SeenWorker decoder, router;
  decoder.descriptor.role = Role::kDecode;
  decoder.descriptor.state = WorkerState::kReady;
  router.descriptor.role = Role::kRouter;
  decoder.linked = router.linked = true;
  EXPECT_TRUE(healthy({decoder, router}));
  EXPECT_FALSE(healthy({router}));
  EXPECT_FALSE(healthy({}));
  router.linked = false;
  EXPECT_FALSE(healthy({decoder, router}));
}

}  // namespace
}  // namespace cheetah::cluster
