// SPDX-License-Identifier: MIT
#include "observe/event_log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/error.h"
#include "base/json.h"

namespace cheetah {
namespace {

TEST(EventLog, WritesOneJsonObjectALineWhateverIsInIt) {
  const std::string line = render_log_line(LogFormat::kJson, LogLevel::kWarning, "thing\nhappened",
      {{"text", "a\r\n\x1b]52;\xff"}, {"n", 3}, {"ms", 1.5}, {"long", std::string(5000, 'x')}},
      1'700'000'000'123);
  EXPECT_EQ(line.find_first_of("\r\n\x1b"), std::string::npos);
  const Json parsed = Json::parse(line);
  EXPECT_EQ(parsed["ts"], "2023-11-14T22:13:20.123Z");
  EXPECT_EQ(parsed["level"], "warning");
  EXPECT_EQ(parsed["n"], 3);
  EXPECT_EQ(parsed["ms"], 1.5);
  EXPECT_LT(parsed["long"].get<std::string>().size(), 1100u);
}

TEST(EventLog, WritesTextForPeople) {
  EXPECT_EQ(render_log_line(
                LogFormat::kText, LogLevel::kInfo, "call", {{"id", "a"}, {"why", "two words"}, {"n", 2}}, 0),
      "1970-01-01T00:00:00.000Z info    call id=a why=\"two words\" n=2");
}

TEST(EventLog, LeavesOutWhatIsBelowItsLevelAndLosesNothingAtItsEnd) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  {
    EventLog log({.level = LogLevel::kInfo, .format = LogFormat::kText, .descriptor = ends[1]});
    for (int i = 0; i < 100; ++i) log.write(LogLevel::kInfo, "line", {{"i", i}});
    log.write(LogLevel::kDebug, "hidden", {});
  }
  close(ends[1]);
  std::string all(1 << 16, '\0');
  const ssize_t count = read(ends[0], all.data(), all.size());
  close(ends[0]);
  ASSERT_GT(count, 0);
  all.resize(static_cast<size_t>(count));
  EXPECT_EQ(std::count(all.begin(), all.end(), '\n'), 100);
  EXPECT_EQ(all.find("hidden"), std::string::npos);
}

TEST(Log, AFailureSaysWhyAndWhereItWasThrown) {
  const std::vector<LogField> fields = failure_fields(Error("the disk is full"));
  ASSERT_EQ(fields.size(), 2u);
  EXPECT_EQ(fields[0].name + "=" + fields[0].value, "why=the disk is full");
  EXPECT_TRUE(fields[1].value.starts_with("src/observe/event_log_test.cpp:")) << fields[1].value;
  EXPECT_EQ(failure_fields(std::runtime_error("plain")).size(), 1u);
}

}  // namespace
}  // namespace cheetah
