// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

#include "tensor/float16.h"

namespace cheetah {

// A number in BF16 where a type must tell it from an integer: activations on the device.
struct Bf16 {
  uint16_t bits;
};

inline float to_float(Bf16 value) { return bf16_to_f32(value.bits); }
inline float to_float(float value) { return value; }

}  // namespace cheetah
