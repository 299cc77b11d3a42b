// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

#include "gpu/stream.h"
#include "kernels/gemm/gemm.h"
#include "tensor/bf16.h"

namespace cheetah::gpu {

// y[i] = scale * table row ids[i]; zeros for a negative id, which fills up a batch. Ids are checked by the
// caller. T is float or Bf16.
template <class T>
struct EmbedArgs {
  WeightMatrix table;            // on the device, any weight type
  const int32_t* ids = nullptr;  // [count] on the device
  // Where fed[i] is not negative, fed_ids[fed[i]] takes the place of ids[i], and is kept in chosen[i]: what a
  // kernel before this one sampled. Or none.
  const int32_t* fed = nullptr;
  const int32_t* fed_ids = nullptr;
  int32_t* chosen = nullptr;  // may be ids
  int64_t count = 0;
  float scale = 1.f;
  T* y = nullptr;
  int64_t y_stride = 0;
};
template <class T>
void embed(const EmbedArgs<T>& args, Stream& stream);

}  // namespace cheetah::gpu
