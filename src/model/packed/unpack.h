// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "model/files/checkpoint.h"
#include "tensor/arena.h"

namespace cheetah {

// A checkpoint's tensors with packed weights as plain ones: "NAME.qweight" and its companions become
// "NAME.weight". What was not packed is passed on as it is.
struct UnpackedTensors {
  TensorMap tensors;
  Arena owned;
  std::vector<std::string> notes;  // what the person should know about how the weights are stored
};

// Symmetric integers become Q4_0 or Q8_0 blocks where those hold the same numbers, MXFP4 its blocks; all else
// becomes F16 (BF16 where a number is beyond F16). Throws Error with one sentence for parts that are missing
// or do not fit.
UnpackedTensors unpack_tensors(const Checkpoint& checkpoint, ThreadPool& pool);

}  // namespace cheetah
