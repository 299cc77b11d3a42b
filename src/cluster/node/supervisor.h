#pragma once
// Starts processes, keeps them running and ends them. One thread, which must live as long as they do: they
// end with it.
#include <sys/types.h>

#include <chrono>
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
  explicit Supervisor(std::vector<ProcessPlan> plans);
  ~Supervisor();  // kills what still runs
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  // Starts what should run and does not: at once the first time, later after a wait that doubles with every
  // quick end. Returns what happened since the last call, a line each.
  std::vector<std::string> poll(Time now);
  // SIGTERM to the last, which takes clients, and when it has ended to all others; what does not end in time
  // is killed.
  std::vector<std::string> stop(std::chrono::milliseconds limit);
  const std::vector<ProcessState>& states() const { return states_; }

 private:
  struct Restart {
    Time at{};
    Duration wait{};
  };
  void start(size_t index, Time now);
  void reap(Time now, std::vector<std::string>& news);
  bool any_running() const;

  std::vector<ProcessPlan> plans_;
  std::vector<ProcessState> states_;
  std::vector<Restart> restarts_;
  bool stopping_ = false;
};

}  // namespace cheetah::cluster
