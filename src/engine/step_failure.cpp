// SPDX-License-Identifier: MIT
#include "engine/step_failure.h"

#include "base/format.h"

namespace cheetah {

std::string StepFailure::request_ids() const {
  std::string ids;
  for (const Part& part : parts)
    ids += format("{}{}", ids.empty() ? "" : ", ", static_cast<uint64_t>(part.request));
  return ids;
}

StepFailure describe_failure(std::string why, uint64_t step, const std::vector<StepWork>& works) {
  StepFailure failure{.why = std::move(why), .step = step, .shape = {}, .parts = {}, .launches = {}};
  for (const StepWork& work : works) {
    failure.shape.add(work.count, work.end - work.count);
    failure.parts.push_back({.request = work.sequence->request->request.id,
        .choice = work.sequence->choice,
        .tokens = work.count,
        .context = work.end,
        .completes = work.completes});
  }
  return failure;
}

std::string_view name_of(FaultKind kind) {
  switch (kind) {
    case FaultKind::kDeviceFailed:
      return "device_failed";
    case FaultKind::kStepHangs:
      return "step_hangs";
    case FaultKind::kStepsFail:
      break;
  }
  return "steps_fail";
}

}  // namespace cheetah
