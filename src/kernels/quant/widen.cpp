// SPDX-License-Identifier: MIT
// The run-time choice of the SIMD conversions.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/quant/widen.cpp"
#include "hwy/foreach_target.h"  // compiles this file once per target
#include "kernels/quant/widen_blocks-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cheetah::HWY_NAMESPACE {
namespace {
void widen(DType dtype, const std::byte* row, float* out, int64_t elements) {
  widen_row(dtype, row, out, elements);
}
}  // namespace
}  // namespace cheetah::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <string>

#include "base/error.h"
#include "kernels/quant/quant.h"

namespace cheetah {
namespace {

bool is_integer(DType dtype) { return dtype >= DType::kBool && dtype <= DType::kU64; }

}  // namespace

HWY_EXPORT(widen);

void dequantize_row(DType dtype, const std::byte* row, float* out, int64_t elements) {
  if (is_integer(dtype)) throw Error("no conversion from " + std::string(name_of(dtype)) + " to F32");
  HWY_DYNAMIC_DISPATCH(widen)(dtype, row, out, elements);
}

}  // namespace cheetah
#endif
