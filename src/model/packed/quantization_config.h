// SPDX-License-Identifier: MIT
#pragma once
// quantization_config of a config.json: which of the known layouts a checkpoint's packed weights have.
#include <string>
#include <vector>

#include "base/json.h"

namespace cheetah {

enum class PackedKind { kNone, kGptq, kAwq, kCompressed, kBitsAndBytes };

struct QuantizationConfig {
  PackedKind kind =
      PackedKind::kNone;        // kNone also for FP8 and MXFP4 experts, which the loader reads as stored
  bool zeros_minus_one = true;  // GPTQ version 1
  std::vector<int> bits = {};   // kCompressed: those that occur
};

// `config` is the whole config.json. Throws Error naming the field for a method or a form that is not known:
// anything else would be read as garbage.
QuantizationConfig read_quantization_config(const Json& config, const std::string& what);

}  // namespace cheetah
