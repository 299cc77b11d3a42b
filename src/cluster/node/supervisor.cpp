#include "cluster/node/supervisor.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <thread>
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

// Between fork and exec only what is safe after a fork of threads; `parent` may be gone already.
[[noreturn]] void become(const std::vector<char*>& arguments, int log, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
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

Supervisor::Supervisor(std::vector<ProcessPlan> plans)
    : plans_(std::move(plans)), states_(plans_.size()), restarts_(plans_.size()) {
  for (size_t i = 0; i < plans_.size(); ++i) states_[i].name = plans_[i].name;
}

Supervisor::~Supervisor() {
  for (const ProcessState& state : states_)
    if (state.pid > 0) kill(state.pid, SIGKILL);
  for (const ProcessState& state : states_)
    if (state.pid > 0) waitpid(state.pid, nullptr, 0);
}

void Supervisor::start(size_t index, Time now) {
  const ProcessPlan& plan = plans_[index];
  std::vector<char*> arguments;
  for (const std::string& word : plan.command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const int log = open(plan.log_file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (log < 0) throw Error(format("{}: cannot be written", plan.log_file));
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
  for (size_t i = 0; i < plans_.size(); ++i) {
    if (stopping_ || states_[i].pid > 0 || now < restarts_[i].at) continue;
    if (!states_[i].ending.empty()) ++states_[i].restarts;
    start(i, now);
    news.push_back(format("{} started, process {}", plans_[i].name, states_[i].pid));
  }
  return news;
}

void Supervisor::reap(Time now, std::vector<std::string>& news) {
  for (size_t i = 0; i < states_.size(); ++i) {
    ProcessState& state = states_[i];
    int status = 0;
    if (state.pid <= 0 || waitpid(state.pid, &status, WNOHANG) != state.pid) continue;
    Restart& restart = restarts_[i];
    const bool quick = now - state.since < kHealthy;
    restart.wait = quick ? std::clamp(restart.wait * 2, kFirstWait, kLongestWait) : Duration{};
    restart.at = now + restart.wait;
    state.pid = 0;
    state.since = now;
    state.ending = ending_of(status);
    state.exit_code = WIFEXITED(status) ? std::optional(WEXITSTATUS(status)) : std::nullopt;
    news.push_back(
        format("{} {}{}", state.name, state.ending, stopping_ ? "" : format("; see {}", plans_[i].log_file)));
  }
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
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      reap(std::chrono::steady_clock::now(), news);
    }
  }
  while (any_running() && std::chrono::steady_clock::now() < until + std::chrono::seconds(2)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
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
