// SPDX-License-Identifier: MIT
#pragma once
// What the tables of single and of grouped products share.
#include <algorithm>
#include <span>

#include "kernels/gemm/gemm_cuda.h"

namespace cheetah::gpu {

template <class Args>
bool always(const Args&, const DeviceInfo&) {
  return true;
}

template <class Args>
const ProductVariant<Args>& best_of(
    std::span<const ProductVariant<Args>> variants, const Args& args, const DeviceInfo& device) {
  const auto is_best = [&](const ProductVariant<Args>& variant) {
    return variant.fits(args, device) && (!variant.pays || variant.pays(args, device));
  };
  return *std::find_if(variants.rbegin(), variants.rend(), is_best);
}

// x in W's type in the room for it: its numbers, `bytes` of them, then a scale per row.
inline float* scales_behind(std::byte* numbers, int64_t bytes) {
  return reinterpret_cast<float*>(numbers + (bytes + 15) / 16 * 16);
}
inline constexpr int64_t kBlockSide = 128;  // of the blocks of W whose scales the tensor cores apply

}  // namespace cheetah::gpu
