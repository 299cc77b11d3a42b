// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <span>

#include "kernels/context.h"
#include "kernels/gemm/gemm.h"

namespace cheetah {

// y[i] = scale * table row ids[i], widened to F32. Ids are checked by the caller.
struct EmbedArgs {
  WeightMatrix table;  // [vocabulary, hidden]
  std::span<const int32_t> ids;
  float scale = 1.f;
  float* y = nullptr;  // [ids.size(), hidden] f32
  int64_t y_stride = 0;
};
void embed(const EmbedArgs& args, const CpuContext& context);

}  // namespace cheetah
