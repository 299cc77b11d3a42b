// SPDX-License-Identifier: MIT
#pragma once
// Spans of a request for its trace, below the span of its sender, when all is over.
#include <string>

#include "cluster/core/prefill_jobs.h"
#include "cluster/core/serving.h"
#include "cluster/core/worker_step.h"

namespace cheetah::cluster {

// For those that work below the span of this answer.
std::string trace_of_answer(const Generate& generate);
void record_answer(const Serving& serving, WorkerStep& step);
void record_job(const PrefillWork& work, WorkerStep& step);

}  // namespace cheetah::cluster
