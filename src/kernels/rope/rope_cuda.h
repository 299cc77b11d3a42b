// SPDX-License-Identifier: MIT
#pragma once
// The rotation of rope.h on the device, in place. T is float or Bf16.
#include <cstdint>

#include "gpu/stream.h"
#include "kernels/rope/rope.h"
#include "tensor/bf16.h"

namespace cheetah::gpu {

// How far pairs turn. Sequences that outgrew the first frequencies turn by the long ones (longrope).
struct RopeAngles {
  const float* inv_freq = nullptr;       // [half] on the device
  const float* long_inv_freq = nullptr;  // [half], or none
  const int32_t* uses_long = nullptr;  // [tokens] on the device: not zero where the long ones count, or none
  int64_t half = 0;
  float magnitude = 1.f;
  float long_magnitude = 1.f;
  RopeLayout layout = RopeLayout::kHalves;
};

template <class T>
struct RopeArgs {
  T* x = nullptr;  // [tokens, heads, head_dim]
  int64_t token_stride = 0;
  int64_t head_stride = 0;
  int64_t tokens = 0;
  int64_t heads = 0;
  const int32_t* positions = nullptr;  // [tokens] on the device
  RopeAngles angles;
};
template <class T>
void rope(const RopeArgs<T>& args, Stream& stream);

}  // namespace cheetah::gpu
