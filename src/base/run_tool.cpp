// SPDX-License-Identifier: MIT
#include "base/run_tool.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <future>

extern char** environ;

namespace cheetah {
namespace {

using TimePoint = std::chrono::steady_clock::time_point;

pid_t spawn(std::vector<std::string>& arguments, int output, bool with_errors) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output, 1);
  if (with_errors)
    posix_spawn_file_actions_adddup2(&actions, output, 2);
  else
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  pid_t pid = 0;
  const int failed = posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  return failed == 0 ? pid : 0;
}

// True when the program closed its output before a limit was reached.
bool read_all(int from, const ToolLimits& limits, TimePoint deadline, std::string& output) {
  char buffer[65536];
  while (static_cast<int64_t>(output.size()) < limits.output_bytes) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd waiting{from, POLLIN, 0};
    if (left.count() <= 0 || poll(&waiting, 1, static_cast<int>(left.count())) <= 0) return false;
    const ssize_t got = read(from, buffer, sizeof buffer);
    if (got <= 0) return got == 0;
    output.append(buffer, static_cast<size_t>(got));
  }
  return false;
}

// The exit code of a program that closed its output; -1 when it does not end in time or was killed.
int reap(pid_t pid, bool complete, TimePoint deadline) {
  // WNOWAIT leaves the process to waitpid() below, so that the number cannot be another's when it is killed.
  const auto ended = std::async(std::launch::async, [pid] {
    siginfo_t ignored;
    while (waitid(P_PID, static_cast<id_t>(pid), &ignored, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
    }
  });
  const bool in_time = complete && ended.wait_until(deadline) == std::future_status::ready;
  if (!in_time) kill(pid, SIGKILL);
  int status = 0;
  ended.wait();
  waitpid(pid, &status, 0);
  return in_time && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

ToolResult run_tool(std::vector<std::string> arguments, const ToolLimits& limits) {
  ToolResult result;
  int ends[2];
  if (arguments.empty() || pipe2(ends, O_CLOEXEC) != 0) return result;
  const TimePoint deadline = std::chrono::steady_clock::now() + limits.time;
  const pid_t pid = spawn(arguments, ends[1], limits.with_errors);
  close(ends[1]);
  if (pid > 0) {
    result.started = true;
    const bool all = read_all(ends[0], limits, deadline, result.output);
    result.exit_code = reap(pid, all, deadline);
    result.complete = result.exit_code >= 0;
  }
  close(ends[0]);
  return result;
}

}  // namespace cheetah
