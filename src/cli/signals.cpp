// SPDX-License-Identifier: MIT
#include "cli/signals.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.h"

namespace cheetah {
namespace {

constexpr int kInterruptedExit = 130;

// A signal handler can reach nothing but globals.
volatile sig_atomic_t g_deferred = 0;
volatile sig_atomic_t g_pending = 0;

void on_interrupt(int) {
  if (!g_deferred || g_pending) _exit(kInterruptedExit);
  g_pending = 1;
}

volatile sig_atomic_t g_shutdown_pipe = -1;

void on_shutdown(int signal) {
  if (g_pending && signal == SIGHUP) return;
  if (g_pending) _exit(128 + signal);
  g_pending = 1;
  const char byte = static_cast<char>(signal);
  (void)!write(g_shutdown_pipe, &byte, 1);
}

}  // namespace

void open_missing_standard_files() {
  for (int fd = 0; fd <= 2; ++fd)
    if (fcntl(fd, F_GETFD) == -1) (void)open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY);
}

void install_signal_handlers() {
  struct sigaction action = {};
  action.sa_handler = on_interrupt;  // without SA_RESTART: a read from the terminal returns
  sigaction(SIGINT, &action, nullptr);
  action.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &action, nullptr);
}

InterruptScope::InterruptScope() {
  g_pending = 0;
  g_deferred = 1;
}
InterruptScope::~InterruptScope() { g_deferred = 0; }
bool InterruptScope::pending() const { return g_pending != 0; }

ShutdownSignals::ShutdownSignals() {
  if (pipe2(pipe_, O_CLOEXEC) != 0) throw Error("cannot open a pipe: too many files are open");
  g_pending = 0;
  g_shutdown_pipe = pipe_[1];
  struct sigaction action = {};
  action.sa_handler = on_shutdown;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  struct sigaction hangup = {};
  sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);  // nohup keeps it ignored
}

ShutdownSignals::~ShutdownSignals() {
  struct sigaction action = {}, hangup = {};
  action.sa_handler = SIG_DFL;
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);
  install_signal_handlers();
  close(pipe_[0]);
  close(pipe_[1]);
}

int ShutdownSignals::wait_for(std::chrono::milliseconds limit) {
  pollfd readable = {.fd = pipe_[0], .events = POLLIN, .revents = 0};
  return poll(&readable, 1, static_cast<int>(limit.count())) > 0 ? wait() : 0;
}

void ShutdownSignals::wake() const {
  const char byte = 0;
  while (write(pipe_[1], &byte, 1) < 0 && errno == EINTR) {
  }
}

int ShutdownSignals::wait() {
  char byte = 0;
  while (read(pipe_[0], &byte, 1) < 0 && errno == EINTR) {
  }
  return byte;
}

}  // namespace cheetah
