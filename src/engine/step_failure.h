// SPDX-License-Identifier: MIT
#pragma once
// What made a step fail, for the log and for the bundle that a fatal fault leaves behind.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/step_batch.h"

namespace cheetah {

struct StepFailure {
  struct Part {  // one sequence's share of the batch
    RequestId request{};
    int choice = 0;
    int64_t tokens = 0;   // computed in this step
    int64_t context = 0;  // tokens in the cache after it
    bool completes = false;
  };
  std::string why;    // the exception's text
  uint64_t step = 0;  // steps that were done before
  StepShape shape;
  std::vector<Part> parts;
  std::string launches;  // the device's last launches, newest first; "" where there is no device

  std::string request_ids() const;  // "3, 7, 12"
};

StepFailure describe_failure(std::string why, uint64_t step, const std::vector<StepWork>& works);

// After one of these the engine computes nothing any more: every request ends with an error.
enum class FaultKind {
  kDeviceFailed,  // it reports an error that stays
  kStepHangs,     // a call into the runner did not return in time
  kStepsFail,     // many steps failed and none was done in between
};
struct EngineFault {
  FaultKind kind = FaultKind::kDeviceFailed;
  std::string why;       // one sentence
  StepFailure last;      // the step that showed it
  std::string bundle{};  // crash_bundle.h
};
std::string_view name_of(FaultKind kind);

}  // namespace cheetah
