// SPDX-License-Identifier: MIT
#include "kernels/gemm/cuda/hopper_packed.h"

#include <algorithm>
#include <numeric>

namespace cheetah::gpu {

namespace packed {  // hopper_packed_k.cu, hopper_packed_32.cu
template <DType kType>
void run_packed(const HopperBlocksArgs& args, Stream& stream);
template <DType kType>
void run_grouped(const HopperGroupedArgs& args, Stream& stream);
}  // namespace packed

namespace {

bool aligned(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer) % 16 == 0; }

// run of the type; whichever of the two products.
template <class Run>
void run_type(DType dtype, const Run& run) {
  switch (dtype) {
    case DType::kQ4_0:
      return run.template operator()<DType::kQ4_0>();
    case DType::kQ8_0:
      return run.template operator()<DType::kQ8_0>();
    case DType::kQ4_K:
      return run.template operator()<DType::kQ4_K>();
    case DType::kQ5_K:
      return run.template operator()<DType::kQ5_K>();
    case DType::kQ6_K:
      return run.template operator()<DType::kQ6_K>();
    default:
      return run.template operator()<DType::kMXFP4>();
  }
}

}  // namespace

bool is_packed(DType dtype) {
  constexpr DType kTypes[] = {
      DType::kQ4_0, DType::kQ8_0, DType::kQ4_K, DType::kQ5_K, DType::kQ6_K, DType::kMXFP4};
  return std::ranges::find(kTypes, dtype) != std::end(kTypes);
}

int packed_fold(int64_t row_bytes) { return static_cast<int>(16 / std::gcd<int64_t>(16, row_bytes)); }

bool can_map_packed(const WeightMatrix& w) {
  if (!is_packed(w.dtype) || w.cols <= 0 || !aligned(w.data)) return false;
  const int fold = packed_fold(row_bytes(w.dtype, w.cols));
  // Rows may begin anywhere where units may; and boxes of fewer than eight rows would not.
  const bool skews = w.dtype == DType::kQ8_0 || w.dtype == DType::kQ6_K || w.dtype == DType::kMXFP4;
  return (fold == 1 || (skews && fold <= 8)) && w.rows % fold == 0;
}

TensorMap packed_weight_map(const WeightMatrix& w) {
  constexpr int kBoxRows = 64;
  const int64_t bytes = row_bytes(w.dtype, w.cols);
  const int fold = packed_fold(bytes);
  return make_tensor_map(w.data, {.element = TensorElement::kU8,
                                     .rank = 2,
                                     .dims = {fold * bytes, w.rows / fold},
                                     .strides = {fold * bytes},
                                     .box = {packed_pitch(w.dtype), kBoxRows / fold},
                                     .swizzle = Swizzle::kNone});
}

bool hopper_packed_fits(const HopperBlocksArgs& args, const DeviceInfo& device) {
  const WeightMatrix& w = args.w;
  if (!device.is_hopper() || !can_map_packed(w)) return false;
  const int64_t outputs = args.gated ? w.rows / 2 : w.rows;
  return outputs % 8 == 0 && outputs % packed_fold(row_bytes(w.dtype, w.cols)) == 0 &&
         args.x_stride % 8 == 0 && args.y_stride % 8 == 0 &&
         (!args.residual || args.residual_stride % 8 == 0) && aligned(args.x) && aligned(args.y) &&
         aligned(args.bias) && aligned(args.residual);
}

void hopper_packed_gemm(const HopperBlocksArgs& args, Stream& stream) {
  const int64_t y_size = args.f32_output ? 4 : 2, most = packed_rows(args.w.dtype);
  for (int64_t row = 0; row < args.m; row += most) {
    HopperBlocksArgs part = args;
    part.m = std::min(most, args.m - row);
    part.x += row * args.x_stride;
    part.y = static_cast<std::byte*>(args.y) + row * args.y_stride * y_size;
    if (args.residual) part.residual += row * args.residual_stride;
    run_type(args.w.dtype, [&]<DType kType>() { packed::run_packed<kType>(part, stream); });
  }
}

bool hopper_packed_experts_fit(const HopperGroupedArgs& args, const DeviceInfo& device) {
  return device.is_hopper() && is_packed(args.dtype) && args.w && args.offsets && args.count <= kMaxGroups &&
         args.k > 0 && args.outputs() % 8 == 0 &&
         args.outputs() % packed_fold(row_bytes(args.dtype, args.k)) == 0 && args.x_stride % 8 == 0 &&
         args.y_stride % 8 == 0 && aligned(args.x) && aligned(args.y);
}

void hopper_packed_experts(const HopperGroupedArgs& args, Stream& stream) {
  if (args.rows == 0) return;
  run_type(args.dtype, [&]<DType kType>() { packed::run_grouped<kType>(args, stream); });
}

}  // namespace cheetah::gpu
