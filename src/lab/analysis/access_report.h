// SPDX-License-Identifier: MIT
#pragma once
// What an access of a warp costs, for people and for programs.
#include <string>

#include "base/json.h"
#include "lab/analysis/access.h"

namespace cheetah::analysis {

struct AccessQuestion {
  WarpAccess access;
  int64_t row_bytes = 0;  // of the array in shared memory, for cures; 0: 128
  bool global = true, shared = true;
};

std::string access_text(const AccessQuestion& question);
Json access_json(const AccessQuestion& question);

}  // namespace cheetah::analysis
