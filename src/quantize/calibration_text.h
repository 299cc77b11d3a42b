// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "model/model.h"

namespace cheetah {

struct CalibrationText {
  std::string source;  // the file, or "samples of the model's own"
  std::string sha256;
  std::vector<std::vector<int32_t>> windows;
};

struct CalibrationOptions {
  std::string file;           // "": the model's own samples
  int64_t tokens = 32 * 512;  // at most, in all
  int64_t window = 512;
};

// A file as eval reads it, or text that the model writes from nothing at temperature 1, from a fixed seed.
CalibrationText calibration_text(const Model& model, Runner& runner, const CalibrationOptions& options);

}  // namespace cheetah
