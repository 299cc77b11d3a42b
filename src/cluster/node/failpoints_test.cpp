// SPDX-License-Identifier: MIT
#include "cluster/node/failpoints.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/format.h"
#include "cluster/node/fault_places.h"

namespace cheetah::cluster {
namespace {

std::vector<FaultAction> actions(Failpoints& points, std::string_view place, int times) {
  std::vector<FaultAction> all;
  for (int i = 0; i < times; ++i) all.push_back(points.hit(place));
  return all;
}

TEST(Failpoints, StrikeOnceAtTheNamedPlaceAndNowhereElse) {
  Failpoints points("send.Tokens=drop", -1);
  EXPECT_EQ(points.hit("receive.Tokens"), FaultAction::kNothing);
  EXPECT_EQ(actions(points, "send.Tokens", 3),
      (std::vector{FaultAction::kDrop, FaultAction::kNothing, FaultAction::kNothing}));
}

TEST(Failpoints, CountFromTheHitThatIsNamedAndStopWhenTheyHaveStruckOftenEnough) {
  Failpoints points("do.PostSlab=fail,hit=2,times=2; told.JobDelivered=double", -1);
  EXPECT_EQ(actions(points, "do.PostSlab", 4),
      (std::vector{FaultAction::kNothing, FaultAction::kFail, FaultAction::kFail, FaultAction::kNothing}));
  EXPECT_EQ(points.hit("told.JobDelivered"), FaultAction::kDouble);
}

TEST(Failpoints, OfOneSeedStrikeAtTheSameHitsAndAboutAsOftenAsTheChanceSays) {
  const auto count = [](const char* setting) {
    Failpoints points(setting, -1);
    const auto all = actions(points, "send.Heartbeat", 400);
    return std::pair(all, std::count(all.begin(), all.end(), FaultAction::kDrop));
  };
  const auto [first, injected] = count("send.Heartbeat=drop,chance=0.25,seed=7");
  EXPECT_EQ(first, count("send.Heartbeat=drop,chance=0.25,seed=7").first);
  EXPECT_NE(first, count("send.Heartbeat=drop,chance=0.25,seed=8").first);
  EXPECT_GT(injected, 50);
  EXPECT_LT(injected, 150);
}

TEST(Failpoints, RefuseWhatIsNoSettingAndSayWhatWasExpected) {
  const std::pair<const char*, const char*> kCases[] = {{"send.Tokens", "PLACE=ACTION"},
      {"send.Tokens=explode", "kill, stop"}, {"send.Nothing=drop", "a place"}, {"Tokens=drop", "a place"},
      {"told.PeerMessage=kill", "a place"}, {"send.Tokens=fail", "cannot fail"},
      {"told.EngineEvent=drop", "cannot drop"}, {"client.event=double", "cannot double"},
      {"send.Tokens=stall", "stall:TIME"}, {"send.Tokens=stall:soon", "2s or 300ms"},
      {"send.Tokens=drop,hit=0", "hit=N"}, {"send.Tokens=drop,chance=2", "chance=P"},
      {"send.Tokens=drop,often", "hit=N"}, {"@/nowhere/at/all", "cannot be read"}};
  for (const auto& [setting, expected] : kCases) {
    try {
      Failpoints points(setting, -1);
      ADD_FAILURE() << setting << " was taken";
    } catch (const UsageError& error) {
      EXPECT_NE(std::string(error.what()).find(expected), std::string::npos) << error.what();
    }
  }
}

TEST(Failpoints, OfAFileChangeWithItAndABrokenOneChangesNothing) {
  const auto path = std::filesystem::temp_directory_path() / format("failpoints-{}", getpid());
  const auto write = [&](const char* text) { std::ofstream(path) << text; };
  write("");
  Failpoints points("@" + path.string(), -1);
  EXPECT_EQ(points.hit("send.Tokens"), FaultAction::kNothing);
  write("send.Tokens=drop,times=5\nsend.Cancel=double\n");
  points.look_again();
  EXPECT_EQ(points.hit("send.Tokens"), FaultAction::kDrop);
  EXPECT_EQ(points.hit("send.Cancel"), FaultAction::kDouble);
  write("send.Tokens=");
  points.look_again();
  EXPECT_EQ(points.hit("send.Tokens"), FaultAction::kDrop);
  std::filesystem::remove(path);
}

// What became of a child that came to this place.
int ending_of_child(const char* setting) {
  const pid_t child = fork();
  if (child == 0) {
    Failpoints points(setting, -1);
    points.hit("client.request");
    _exit(0);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, WUNTRACED), child);
  if (!WIFSTOPPED(status)) return status;
  kill(child, SIGCONT);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
  return status;
}

TEST(Failpoints, KillAndStopTheProcessThatHasThem) {
  const int killed = ending_of_child("client.request=kill");
  EXPECT_TRUE(WIFSIGNALED(killed) && WTERMSIG(killed) == SIGKILL);
  EXPECT_TRUE(WIFSTOPPED(ending_of_child("client.request=stop")));
}

TEST(Failpoints, EveryOutputThatCanFailIsAnsweredAsItsCoreExpects) {
  const RequestKey key{RequestUid{7}, Attempt{2}};
  const WorkerOutput kOutputs[] = {EngineSubmit{.key = key}, ReserveSpace{.key = key}, ImportSlab{.key = key},
      PushJob{{.key = key}}, StartExport{.key = key}, PostSlab{.key = key}};
  for (const WorkerOutput& output : kOutputs) {
    EXPECT_EQ(why_no_place(format("do.{}", output_name(output)), FaultAction::kFail), "");
    EXPECT_TRUE(failure_of(output).has_value()) << output_name(output);
  }
  EXPECT_FALSE(failure_of(Unpin{key}).has_value());
  EXPECT_EQ(input_name(SlabSent{}), "SlabSent");
  EXPECT_EQ(input_name(LoadMeasured{}), "LoadMeasured");
  EXPECT_EQ(output_name(Drained{}), "Drained");
  EXPECT_EQ(output_name(RecordSpan{}), "RecordSpan") << "also the last of them";
}

}  // namespace
}  // namespace cheetah::cluster
