// SPDX-License-Identifier: MIT
#include "cluster/node/supervisor.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/format.h"

namespace cheetah::cluster {
namespace {

constexpr Duration kFirstWait = std::chrono::milliseconds(200), kLongestWait = std::chrono::seconds(10);
constexpr Duration kHealthy = std::chrono::seconds(30);  // one that ran so long starts again at once

std::string ending_of(int status) {
  if (WIFEXITED(status)) return format("exited with {}", WEXITSTATUS(status));
  return format("was ended by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
}

// Between fork and exec only what is safe after a fork of threads; `parent` may be gone already. The death
// signal comes once for each thread of the supervisor that ends, so it is one that may come again: a second
// SIGTERM would end the process at once.
[[noreturn]] void become(const std::vector<char*>& arguments, int log, pid_t parent) {
  signal(SIGHUP, SIG_DFL);
  prctl(PR_SET_PDEATHSIG, SIGHUP);
  if (getppid() != parent) _exit(1);
  setpgid(0, 0);  // a Ctrl-C in the terminal is the supervisor's to pass on
  const int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, 0);
  dup2(log, 1);
  dup2(log, 2);
  signal(SIGPIPE, SIG_DFL);
  execv(arguments[0], arguments.data());
  _exit(127);
}

}  // namespace

Supervisor::Supervisor(std::vector<ProcessPlan> plans, std::function<void()> before_start)
    : plans_(std::move(plans)),
      before_start_(std::move(before_start)),
      states_(plans_.size()),
      restarts_(plans_.size()) {
  for (size_t i = 0; i < plans_.size(); ++i) states_[i].name = plans_[i].name;
}

Supervisor::~Supervisor() {
  for (const ProcessState& state : states_)
    if (state.pid > 0) kill(state.pid, SIGKILL);
  for (const ProcessState& state : states_)
    if (state.pid > 0) waitpid(state.pid, nullptr, 0);
}

void Supervisor::start(size_t index, Time now, std::vector<std::string>& news) {
  const ProcessPlan& plan = plans_[index];
  if (before_start_) before_start_();
  std::vector<char*> arguments;
  for (const std::string& word : plan.command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  int log = open(plan.log_file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (log < 0) {
    news.push_back(
        format("{}: cannot be written: {}; the process has no log", plan.log_file, strerror(errno)));
    log = open("/dev/null", O_WRONLY | O_CLOEXEC);
  }
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child == 0) become(arguments, log, parent);
  close(log);
  if (child < 0) throw Error(format("{}: cannot be started: {}", plan.name, strerror(errno)));
  states_[index].pid = child;
  states_[index].since = now;
}

std::vector<std::string> Supervisor::poll(Time now) {
  std::vector<std::string> news;
  reap(now, news);
  let_go(now, news);
  for (size_t i = 0; i < plans_.size(); ++i) {
    if (stopping_ || restarts_[i].retired || states_[i].pid > 0 || now < restarts_[i].at) continue;
    try {
      start(i, now, news);
    } catch (const Error& error) {
      back_off(i, now, true);
      news.push_back(
          format("{}; tried again in {} ms", error.what(), restarts_[i].wait / std::chrono::milliseconds(1)));
      continue;
    }
    if (!states_[i].ending.empty()) ++states_[i].restarts;
    news.push_back(format("{} started, process {}", plans_[i].name, states_[i].pid));
  }
  return news;
}

void Supervisor::add(ProcessPlan plan) {
  const auto before_last = [](auto& list) { return list.end() - (list.empty() ? 0 : 1); };
  ProcessState state;
  state.name = plan.name;
  plans_.insert(before_last(plans_), std::move(plan));
  states_.insert(before_last(states_), std::move(state));
  restarts_.insert(before_last(restarts_), Restart{});
}

void Supervisor::retire(const std::string& name, Duration limit, Time now) {
  for (size_t i = 0; i < states_.size(); ++i) {
    if (states_[i].name != name || restarts_[i].retired) continue;
    restarts_[i].retired = now + limit;
    if (states_[i].pid > 0) kill(states_[i].pid, SIGTERM);
  }
}

bool Supervisor::has(const std::string& name) const {
  return std::ranges::find(states_, name, &ProcessState::name) != states_.end();
}

// Of the retired: forgets those that have ended, kills those that do not.
void Supervisor::let_go(Time now, std::vector<std::string>& news) {
  for (size_t i = states_.size(); i-- > 0;) {
    if (!restarts_[i].retired) continue;
    if (states_[i].pid > 0) {
      if (now >= *restarts_[i].retired) kill(states_[i].pid, SIGKILL);
      continue;
    }
    news.push_back(format("{} has left", states_[i].name));
    plans_.erase(plans_.begin() + static_cast<std::ptrdiff_t>(i));
    states_.erase(states_.begin() + static_cast<std::ptrdiff_t>(i));
    restarts_.erase(restarts_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

void Supervisor::back_off(size_t index, Time now, bool quick) {
  Restart& restart = restarts_[index];
  restart.wait = quick ? std::clamp(restart.wait * 2, kFirstWait, kLongestWait) : Duration{};
  restart.at = now + restart.wait;
}

void Supervisor::kill_hung(const std::string& name, Duration silent, std::vector<std::string>& news) {
  const auto hung = std::ranges::find(states_, name, &ProcessState::name);
  if (hung == states_.end() || hung->pid <= 0) return;
  news.push_back(
      format("{} hangs: silent for {:.0f} s, killed", name, std::chrono::duration<double>(silent).count()));
  kill(hung->pid, SIGKILL);
}

void Supervisor::reap(Time now, std::vector<std::string>& news) {
  for (size_t i = 0; i < states_.size(); ++i) {
    ProcessState& state = states_[i];
    int status = 0;
    if (state.pid <= 0 || waitpid(state.pid, &status, WNOHANG) != state.pid) continue;
    back_off(i, now, now - state.since < kHealthy);
    state.pid = 0;
    state.since = now;
    state.ending = ending_of(status);
    state.exit_code = WIFEXITED(status) ? std::optional(WEXITSTATUS(status)) : std::nullopt;
    news.push_back(format("{} {}{}", state.name, state.ending,
        stopping_ || restarts_[i].retired ? "" : format("; see {}", plans_[i].log_file)));
  }
}

void Supervisor::wait_for_an_end(Time until) const {
  std::vector<pollfd> ends;
  for (const ProcessState& state : states_)
    if (const auto end = state.pid > 0 ? syscall(SYS_pidfd_open, state.pid, 0) : -1; end >= 0)
      ends.push_back({.fd = static_cast<int>(end), .events = POLLIN, .revents = 0});
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
  // Without descriptors for them it looks now and then.
  const int64_t limit = ends.empty() ? 10 : std::max<int64_t>(0, left.count());
  ::poll(ends.data(), ends.size(), static_cast<int>(limit));
  for (const pollfd& end : ends) close(end.fd);
}

bool Supervisor::any_running() const {
  return std::ranges::any_of(states_, [](const ProcessState& state) { return state.pid > 0; });
}

std::vector<std::string> Supervisor::stop(std::chrono::milliseconds limit) {
  stopping_ = true;
  const Time until = std::chrono::steady_clock::now() + limit;
  std::vector<std::string> news;
  // The last plan is the one that takes clients: it ends first, while those it relies on still work.
  for (size_t i = states_.size(); i-- > 0;) {
    if (states_[i].pid > 0) kill(states_[i].pid, SIGTERM);
    const bool takes_clients = i + 1 == states_.size();
    while (takes_clients && states_[i].pid > 0 && std::chrono::steady_clock::now() < until) {
      wait_for_an_end(until);
      reap(std::chrono::steady_clock::now(), news);
    }
  }
  const Time last = until + std::chrono::seconds(2);
  while (any_running() && std::chrono::steady_clock::now() < last) {
    wait_for_an_end(last);
    reap(std::chrono::steady_clock::now(), news);
  }
  for (ProcessState& state : states_)
    if (state.pid > 0) {
      kill(state.pid, SIGKILL);
      waitpid(state.pid, nullptr, 0);
      news.push_back(format("{} did not end in time and was killed", state.name));
      state.pid = 0;
    }
  return news;
}

}  // namespace cheetah::cluster
