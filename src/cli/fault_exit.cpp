// SPDX-License-Identifier: MIT
#include "cli/fault_exit.h"

#include <unistd.h>

#include <algorithm>

#include "base/time.h"

namespace cheetah {
namespace {

constexpr std::chrono::milliseconds kLogFlush{100};  // the log is written by a thread of its own

}  // namespace

// Destructors do not run: they would wait for the device.
FaultExit::FaultExit(std::chrono::milliseconds last_words)
    : last_words_(last_words), thread_([this] {
        if (!faults_.wait()) return;
        std::vector<FaultKind> taken;
        faults_.take_all(taken);
        faults_.wait_until(SteadyClock::now() + std::max(last_words_, kLogFlush));
        if (!faults_.closed()) _exit(kEngineFailedExit);
      }) {}

FaultExit::~FaultExit() {
  faults_.close();
  thread_.join();
}

EngineHooks FaultExit::hooks(LogSink& log) {
  return {.log = &log,
      .on_fault =
          [this](const EngineFault& fault) {
            faults_.post(fault.kind);
            if (last_words_.count() == 0) std::this_thread::sleep_for(2 * kLogFlush);  // it ends meanwhile
          },
      .make_runner = {}};
}

}  // namespace cheetah
