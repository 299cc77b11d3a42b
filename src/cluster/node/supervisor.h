// SPDX-License-Identifier: MIT
#pragma once
// Starts processes, keeps them running and ends them, from one thread. What goes wrong with a start (no
// folder, no process to be had, a full disk) is reported and tried again: the processes that run go on. When
// the supervisor is lost, they drain and end by themselves.
#include <sys/types.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cluster/types.h"

namespace cheetah::cluster {

struct ProcessPlan {
  std::string name;
  std::vector<std::string> command;  // the program first
  std::string log_file;              // standard output and error, appended
};

struct ProcessState {
  std::string name;
  pid_t pid = 0;  // 0: not running
  int restarts = 0;
  Time since{};                       // of this state
  std::string ending;                 // how the last one ended
  std::optional<int> exit_code = {};  // and with what, if by itself
};

class Supervisor {
 public:
  // `before_start` makes sure of the files that the processes read; it may throw Error.
  explicit Supervisor(std::vector<ProcessPlan> plans, std::function<void()> before_start = {});
  ~Supervisor();  // kills what still runs
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  // Starts what should run and does not: at once the first time, later after a wait that doubles with every
  // quick end. Returns what happened since the last call, a line each.
  std::vector<std::string> poll(Time now);
  // Kills a process that hangs; poll() starts it again.
  void kill_hung(const std::string& name, Duration silent, std::vector<std::string>& news);
  // Another process; the last stays the last.
  void add(ProcessPlan plan);
  // Ends one for good: it may finish what it has within the limit, and is not started again.
  void retire(const std::string& name, Duration limit, Time now);
  bool has(const std::string& name) const;
  // SIGTERM to the last, which takes clients, and when it has ended to all others; what does not end in time
  // is killed.
  std::vector<std::string> stop(std::chrono::milliseconds limit);
  const std::vector<ProcessState>& states() const { return states_; }

 private:
  struct Restart {
    Time at{};
    Duration wait{};
    std::optional<Time> retired{};  // by when it has to have ended
  };
  // Throws Error where the process cannot be started.
  void start(size_t index, Time now, std::vector<std::string>& news);
  void back_off(size_t index, Time now, bool quick);
  // Returns when a process has ended or the time is up.
  void wait_for_an_end(Time until) const;
  void reap(Time now, std::vector<std::string>& news);
  void let_go(Time now, std::vector<std::string>& news);
  bool any_running() const;

  std::vector<ProcessPlan> plans_;
  std::function<void()> before_start_;
  std::vector<ProcessState> states_;
  std::vector<Restart> restarts_;
  bool stopping_ = false;
};

}  // namespace cheetah::cluster
