// SPDX-License-Identifier: MIT
#pragma once
#include <functional>
#include <string>

#include "quantize/gguf_model.h"
#include "quantize/target_format.h"
#include "quantize/write_directory.h"

namespace cheetah {

// Asked for the evaluation of the file at `path` when its weights are written; "" for none. What it returns
// is kept in the metadata as cheetah.evaluation.
using EvaluateFile = std::function<std::string(const std::string& path)>;

// Writes one GGUF file, renamed into place when whole. `preparation` may be nullptr; only its moments are
// used, as the importance of numbers in the types with 6-bit scales.
WriteReport write_gguf(const SourceModel& source, const TargetFormat& format, const std::string& path,
    const std::string& key, Preparation* preparation, const WriteHooks& hooks, const EvaluateFile& evaluate);

}  // namespace cheetah
