// SPDX-License-Identifier: MIT
#include "observe/log_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>

#include "base/format.h"
#include "base/temp_dir.h"
#include "observe/event_log.h"

namespace cheetah {
namespace {

// A descriptor that leads nowhere yet, as standard output of a process does that writes to a file.
int some_descriptor() { return open("/dev/null", O_WRONLY | O_CLOEXEC); }

std::map<std::string, int> lines_in(const std::filesystem::path& folder) {
  std::map<std::string, int> lines;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream file(entry.path());
    for (std::string line; std::getline(file, line);) ++lines[line];
  }
  return lines;
}

TEST(LogFile, LosesNoLineWhoeverWritesWhenItIsFull) {
  const TempDir temp;
  const int out = some_descriptor(), err = some_descriptor();
  constexpr int kThreads = 3, kLines = 3000;
  {
    LogFile log(
        {.path = temp.path() + "/a.log", .max_bytes = 2000, .keep = 1'000'000, .descriptors = {out, err}},
        std::chrono::milliseconds(0));
    std::atomic<int> running = kThreads;
    std::vector<std::thread> threads;
    for (int thread = 0; thread < kThreads; ++thread)
      threads.emplace_back([&, thread] {
        for (int i = 0; i < kLines; ++i) {
          const std::string line = format("thread {} line {}\n", thread, i);
          EXPECT_EQ(write(i % 2 == 0 ? out : err, line.data(), line.size()), std::ssize(line));
        }
        --running;
      });
    while (running > 0) log.look();
    for (std::thread& thread : threads) thread.join();
  }
  const auto lines = lines_in(temp.path());
  EXPECT_EQ(lines.size(), size_t{kThreads} * kLines);
  for (const auto& [line, times] : lines) EXPECT_EQ(times, 1) << line;
  EXPECT_TRUE(std::filesystem::exists(temp.path() + "/a.log.2")) << "it was full several times";
  close(out);
  close(err);
}

TEST(LogFile, KeepsSoManyFullFilesAndTheLatest) {
  const TempDir temp;
  const int out = some_descriptor();
  LogFile log({.path = temp.path() + "/a.log", .max_bytes = 100, .keep = 2, .descriptors = {out}},
      std::chrono::milliseconds(0));
  for (int i = 0; i < 100; ++i) {
    const std::string line = format("line {:04}\n", i);
    EXPECT_EQ(write(out, line.data(), line.size()), std::ssize(line));
    log.look();
  }
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(temp.path())) {
    ++files;
    EXPECT_LE(entry.file_size(), 110u) << entry.path();
  }
  EXPECT_EQ(files, 3u);
  const auto lines = lines_in(temp.path());
  EXPECT_EQ(lines.rbegin()->first, "line 0099");
  EXPECT_GE(lines.size(), 20u);
  close(out);
}

TEST(LogFile, IsBegunAgainWhereItWasTakenAway) {
  const TempDir temp;
  const int out = some_descriptor();
  const std::filesystem::path folder = temp.path() + "/logs";
  std::filesystem::create_directory(folder);
  LogFile log({.path = folder / "a.log", .descriptors = {out}}, std::chrono::milliseconds(0));
  std::filesystem::remove_all(folder);
  log.look();
  EXPECT_EQ(write(out, "lost\n", 5), 5) << "the writer does not notice";
  std::filesystem::create_directory(folder);
  log.look();
  EXPECT_EQ(write(out, "there\n", 6), 6);
  EXPECT_EQ(lines_in(folder), (std::map<std::string, int>{{"there", 1}}));
  close(out);
}

TEST(LogFile, LinesWaitWhileTheDiskIsFull) {
  const TempDir temp;
  const int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
  if (full < 0) GTEST_SKIP() << "there is no /dev/full here";
  const int out = dup(full);
  {
    EventLog events({.format = LogFormat::kText, .descriptor = out});
    for (int i = 0; i < 50; ++i) events.write(LogLevel::kInfo, format("event-{:02}", i), {});
    const int file = open((temp.path() + "/a.log").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    dup2(file, out);  // there is space again
    close(file);
  }
  int64_t found = 0;
  for (const auto& [line, times] : lines_in(temp.path())) found += line.find("event-") != std::string::npos;
  EXPECT_EQ(found, 50);
  close(out);
  close(full);
}

}  // namespace
}  // namespace cheetah
