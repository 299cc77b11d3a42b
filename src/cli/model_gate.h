// SPDX-License-Identifier: MIT
#pragma once
#include <string>

namespace cheetah {

// Says what a quantized model's own evaluation says of it, and warns where it has none, failed it, or has one
// of other weights. Nothing for a model that is not quantized.
void tell_evaluation(const std::string& model);

}  // namespace cheetah
