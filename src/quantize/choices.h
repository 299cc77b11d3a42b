// SPDX-License-Identifier: MIT
#pragma once
#include "quantize/evaluate.h"

namespace cheetah {

// Multiple choice: a model's answer is the choice whose tokens are the likeliest per byte after the prompt.
void answer_questions(const EvalData& data, int64_t first, const RunningModel& model,
    const std::optional<RunningModel>& reference, const EvalHooks& hooks);

}  // namespace cheetah
