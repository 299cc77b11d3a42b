// SPDX-License-Identifier: MIT
#pragma once
// Ends the process when its engine has failed for good, so that its supervisor starts it again.
#include <chrono>
#include <thread>

#include "base/mailbox.h"
#include "engine/engine.h"

namespace cheetah {

// Of a server whose engine computes nothing any more; any other failure ends with 1.
inline constexpr int kEngineFailedExit = 70;

// Lives at least as long as the engine that has its hooks.
class FaultExit {
 public:
  // `last_words`: for health probes to see it and clients to get their errors. 0: the process ends before any
  // client hears of it; in a cluster another worker then goes on with what ran here.
  explicit FaultExit(std::chrono::milliseconds last_words);
  ~FaultExit();

  EngineHooks hooks(LogSink& log);

 private:
  const std::chrono::milliseconds last_words_;
  Mailbox<FaultKind> faults_;
  std::thread thread_;
};

}  // namespace cheetah
