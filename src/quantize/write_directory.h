// SPDX-License-Identifier: MIT
#pragma once
// A model folder in safetensors, a tensor at a time.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "quantize/linear_encoder.h"
#include "quantize/planned_file.h"
#include "quantize/preparation.h"

namespace cheetah {

struct WriteHooks {
  std::function<void(int64_t tensors)> begin = {};  // how many are still to be written
  std::function<void()> tensor = {};                // one is done
};

struct WriteReport {
  int64_t quantized = 0;  // layers' matrices
  int64_t kept = 0;       // other tensors
  int64_t resumed = 0;    // tensors that were written before
  int64_t bytes = 0;
  std::vector<std::string> notes;
};

// Writes `folder`/model.safetensors, config.json and the source's small files. The folder is the caller's to
// rename. `key` tells what is written, for resuming; `preparation` may be nullptr.
WriteReport write_directory(const SourceModel& source, const TargetFormat& format, int64_t group,
    const std::string& folder, const std::string& key, Preparation* preparation, const WriteHooks& hooks);

}  // namespace cheetah
