// SPDX-License-Identifier: MIT
#include "base/bus_error_guard.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <mutex>

namespace cheetah {
namespace {

// Read inside a signal handler, so: fixed storage, no locks, and `begin` is written last.
struct Watched {
  std::atomic<bool> taken = false;
  std::atomic<const std::byte*> begin = nullptr;
  size_t bytes = 0;
  std::array<char, 256> path{};  // the end of a longer one
};

// Globals, because a signal handler cannot reach its data in another way.
std::array<Watched, 1024> watched_mappings;
struct sigaction previous_action;
std::once_flag installed;

void say(const char* text, size_t length) {
  // A closed stderr is ignored: nothing can be done about it.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text, length);
}

void on_bus_error(int, siginfo_t* info, void*) {
  const auto* address = static_cast<const std::byte*>(info->si_addr);
  for (const Watched& entry : watched_mappings) {
    const std::byte* begin = entry.begin.load(std::memory_order_acquire);
    if (!begin || address < begin || address >= begin + entry.bytes) continue;
    constexpr char kStart[] = "cheetah: error: ";
    constexpr char kEnd[] = ": the file was truncated or its disk failed while it was in use\n";
    say(kStart, sizeof kStart - 1);
    say(entry.path.data(), strnlen(entry.path.data(), entry.path.size()));
    say(kEnd, sizeof kEnd - 1);
    _exit(1);
  }
  sigaction(SIGBUS, &previous_action, nullptr);  // returning repeats the access, which now meets that one
}

void install() {
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  sigaction(SIGBUS, &action, &previous_action);
}

}  // namespace

void watch_mapping(const void* begin, size_t bytes, const std::string& path) {
  std::call_once(installed, install);
  for (Watched& entry : watched_mappings) {
    if (entry.taken.exchange(true)) continue;
    const size_t length = std::min(path.size(), entry.path.size());
    entry.path.fill('\0');
    std::copy_n(path.end() - static_cast<std::ptrdiff_t>(length), length, entry.path.begin());
    entry.bytes = bytes;
    entry.begin.store(static_cast<const std::byte*>(begin), std::memory_order_release);
    return;
  }
}

void unwatch_mapping(const void* begin) {
  for (Watched& entry : watched_mappings) {
    if (entry.begin.load() != begin) continue;
    entry.begin.store(nullptr);
    entry.taken.store(false);
    return;
  }
}

}  // namespace cheetah
