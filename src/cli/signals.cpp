#include "cli/signals.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

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

}  // namespace cheetah
