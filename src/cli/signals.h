// SPDX-License-Identifier: MIT
#pragma once
#include <chrono>

namespace cheetah {

// A process may start with descriptors 0..2 closed; a model file opened later would then take their place.
void open_missing_standard_files();

// SIGINT ends the process with 130 at once; SIGPIPE becomes an error of the write, which print() handles.
void install_signal_handlers();

// While one lives, the first SIGINT only sets a flag that long work polls; a second ends
// the process. One at a time.
class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;
  bool pending() const;
};

// While one lives, the first SIGINT or SIGTERM only ends wait(); a second ends the process. SIGHUP, which tells
// that the supervisor or the terminal is gone and may come more than once, only ends wait(). One at a time.
class ShutdownSignals {
 public:
  ShutdownSignals();
  ~ShutdownSignals();
  ShutdownSignals(const ShutdownSignals&) = delete;
  ShutdownSignals& operator=(const ShutdownSignals&) = delete;
  int wait();                                     // returns the signal's number; 0: wake() was called
  void wake() const;                              // any thread
  int wait_for(std::chrono::milliseconds limit);  // 0: none came in this time

 private:
  int pipe_[2];
};

}  // namespace cheetah
