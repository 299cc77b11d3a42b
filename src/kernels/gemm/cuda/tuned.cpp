// SPDX-License-Identifier: MIT
#include "kernels/gemm/cuda/tuned.h"

#include <algorithm>

#include "kernels/gemm/cuda/tuned_h200.h"

namespace cheetah::gpu {
std::string_view tuned_variant(const ProductShape& shape, const DeviceInfo& device) {
  if (device.name.find("H200") == std::string::npos) return {};
  const auto takes = [&](const Tuned& tuned) {
    return tuned.dtype == shape.dtype && tuned.n == shape.n && tuned.k == shape.k && shape.m <= tuned.most;
  };
  const auto at = std::ranges::find_if(kTunedH200, takes);
  return at == kTunedH200.end() ? std::string_view() : at->variant;
}

}  // namespace cheetah::gpu
