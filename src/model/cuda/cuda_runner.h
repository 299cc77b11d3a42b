// SPDX-License-Identifier: MIT
#pragma once
// The transformer on a CUDA device.
#include <memory>

#include "model/model.h"

namespace cheetah {

// kExact: F32 activations, weights widened to F32 in each product. kNative: BF16 activations with F32 sums.
// Weights keep the type they are stored in. Copies them to the device; the model must outlive the runner.
// Throws Error when there is no device or the weights do not fit.
std::unique_ptr<Runner> make_cuda_runner(const Model& model, Precision precision, int device_index = 0);

}  // namespace cheetah
