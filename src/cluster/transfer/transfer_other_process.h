// SPDX-License-Identifier: MIT
#pragma once
// This test program again, as another process that runs one test only: a clean start, unlike fork().
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "cluster/transfer/shared_arena.h"
#include "cluster/transfer/transfer.h"

namespace cheetah::cluster {

inline constexpr const char* kRoleVariable = "CHEETAH_TRANSFER_TEST_ROLE";
inline constexpr const char* kBackendVariable = "CHEETAH_TRANSFER_TEST_BACKEND";
inline constexpr int kFromParent = 30, kToParent = 31;  // descriptors in the other process

inline void write_line(int fd, const std::string& bytes) {
  std::string line;
  for (const char byte : bytes) {
    std::array<char, 3> hex;
    std::snprintf(hex.data(), hex.size(), "%02x", static_cast<unsigned char>(byte));
    line += hex.data();
  }
  line += '\n';
  ASSERT_EQ(::write(fd, line.data(), line.size()), static_cast<ssize_t>(line.size()));
}

inline std::string read_line(int fd) {
  std::string bytes;
  for (std::string digits;;) {
    char next;
    if (::read(fd, &next, 1) != 1 || next == '\n') return bytes;
    digits += next;
    if (digits.size() < 2) continue;
    bytes += static_cast<char>(std::stoi(digits, nullptr, 16));
    digits.clear();
  }
}

class OtherProcess {
 public:
  OtherProcess(const char* test, const char* role, TransferBackend backend) {
    std::array<int, 2> down, up;
    EXPECT_EQ(::pipe2(down.data(), O_CLOEXEC), 0);
    EXPECT_EQ(::pipe2(up.data(), O_CLOEXEC), 0);
    to_ = UniqueFd(down[1]);
    from_ = UniqueFd(up[0]);
    const UniqueFd theirs_in(down[0]), theirs_out(up[1]);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, theirs_in.get(), kFromParent);
    ::posix_spawn_file_actions_adddup2(&actions, theirs_out.get(), kToParent);
    ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    ::unsetenv("GTEST_TOTAL_SHARDS");  // the test it runs belongs to one share of many otherwise
    ::unsetenv("GTEST_SHARD_INDEX");
    ::setenv(kRoleVariable, role, 1);
    ::setenv(kBackendVariable, name_of(backend), 1);
    std::string self = "/proc/self/exe", filter = std::string("--gtest_filter=") + test;
    std::array<char*, 3> arguments{self.data(), filter.data(), nullptr};
    EXPECT_EQ(::posix_spawn(&pid_, self.c_str(), &actions, nullptr, arguments.data(), environ), 0);
    ::posix_spawn_file_actions_destroy(&actions);
    ::unsetenv(kRoleVariable);
    ::unsetenv(kBackendVariable);
  }
  ~OtherProcess() { kill(); }

  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  pid_t pid() const { return pid_; }
  void send(int signal) const { ::kill(pid_, signal); }
  void tell(const std::string& bytes) const { write_line(to_.get(), bytes); }
  std::string ask() const { return read_line(from_.get()); }

 private:
  UniqueFd to_, from_;
  pid_t pid_ = 0;
};

}  // namespace cheetah::cluster
