// SPDX-License-Identifier: MIT
#pragma once
// Runs as JSON: what --json writes, the history keeps and the report reads.
#include "base/json.h"
#include "lab/run.h"

namespace cheetah::lab {

Json run_json(const LabRun& run);
// Throws Error naming `what` and the field that is missing or wrong.
LabRun run_from_json(const Json& json, const std::string& what);

}  // namespace cheetah::lab
