// SPDX-License-Identifier: MIT
#pragma once
// What a model is, without its weights.
#include <string>

#include "model/families/config.h"
#include "model/files/checkpoint.h"
#include "model/traits.h"

namespace cheetah {

// Traits and weight names from config.json or GGUF metadata. Throws Error for an unknown family or a bad
// field.
FamilyModel describe_model(const Checkpoint& checkpoint);

// Of a "random:" preset. Throws UsageError listing them for an unknown one.
ModelTraits random_traits(const std::string& preset);

// "cub-7m" of "models/cub-7m/", "llama-Q8_0" of "gguf/llama-Q8_0.gguf".
std::string model_name(const std::string& path);

}  // namespace cheetah
