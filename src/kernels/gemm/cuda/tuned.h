// SPDX-License-Identifier: MIT
#pragma once
// Which variant of a product was fastest when kernels_cuda_bench measured them on a card.
#include <cstdint>
#include <string_view>

#include "gpu/device.h"
#include "tensor/dtype.h"

namespace cheetah::gpu {

// Products of up to `most` rows, from the row before it in the table on.
struct Tuned {
  DType dtype;
  int64_t n, k, most;
  const char* variant;
};

struct ProductShape {
  DType dtype = DType::kBF16;  // of W
  int64_t n = 0;               // rows of W
  int64_t k = 0;
  int64_t m = 0;
};
// The variant's name, or none: this shape or card was not measured.
std::string_view tuned_variant(const ProductShape& shape, const DeviceInfo& device);

}  // namespace cheetah::gpu
