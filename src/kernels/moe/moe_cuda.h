// SPDX-License-Identifier: MIT
#pragma once
// Routing, permutation and combination of moe.h on the device: no step of it waits for the host.
#include <cstdint>

#include "gpu/stream.h"
#include "kernels/moe/moe.h"
#include "tensor/bf16.h"

namespace cheetah::gpu {

// RouterArgs with device pointers; ids and weights [tokens, top_k] on the device.
void route(const RouterArgs& args, int32_t* ids, float* weights, Stream& stream);

// Tokens sorted by expert: rows [offsets[e], offsets[e + 1]) of `source` are (token * top_k + choice) of
// expert e, in ascending order; row_of is the inverse of source. All on the device.
struct ExpertOrder {
  int32_t* offsets = nullptr;  // [experts + 1]
  int32_t* source = nullptr;   // [count]
  int32_t* row_of = nullptr;   // [count]
};
void order_by_expert(
    const int32_t* ids, int64_t count, int64_t experts, const ExpertOrder& order, Stream& stream);

// y[token] += sum over its choices, best first, of weight * out[row_of[token * top_k + choice]].
template <class T>
struct CombineArgs {
  const T* out = nullptr;  // [tokens * top_k, cols] in the experts' order
  const int32_t* row_of = nullptr;
  const float* weights = nullptr;
  int64_t tokens = 0;
  int64_t top_k = 0;
  int64_t cols = 0;
  T* y = nullptr;  // [tokens, cols]
};
template <class T>
void combine_experts(const CombineArgs<T>& args, Stream& stream);

}  // namespace cheetah::gpu
