// dequantize_row for the types models are mostly stored in.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/quant/widen.cpp"
#include "hwy/foreach_target.h"  // compiles this file once per target
#include "kernels/quant/widen-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cheetah::HWY_NAMESPACE {
namespace {

void widen_row(DType dtype, const std::byte* row, float* out, int64_t elements) {
  switch (dtype) {
    case DType::kF32:
      return widen_plain<WidenF32>(row, out, elements);
    case DType::kF16:
      return widen_plain<WidenF16>(row, out, elements);
    case DType::kBF16:
      return widen_plain<WidenBF16>(row, out, elements);
    case DType::kQ8_0:
      return widen_q8_0(row, out, elements);
    case DType::kQ4_0:
      return widen_q4_0(row, out, elements);
    default:
      return widen_q4_k(row, out, elements);
  }
}

}  // namespace
}  // namespace cheetah::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/quant/dequantize.h"

namespace cheetah {

HWY_EXPORT(widen_row);

bool has_fast_dequantize(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16 || dtype == DType::kQ8_0 ||
         dtype == DType::kQ4_0 || dtype == DType::kQ4_K;
}

void dequantize_row_fast(DType dtype, const std::byte* row, float* out, int64_t elements) {
  HWY_DYNAMIC_DISPATCH(widen_row)(dtype, row, out, elements);
}

}  // namespace cheetah
#endif
