// SPDX-License-Identifier: MIT
// The ways to compute products of many matrices, and the choice between them.
#include <array>

#include "base/error.h"
#include "kernels/gemm/cuda/hopper.h"
#include "kernels/gemm/cuda/hopper_packed.h"
#include "kernels/gemm/cuda/portable.h"
#include "kernels/gemm/cuda/variants.h"

namespace cheetah::gpu {
namespace {

using BfGrouped = GroupedGemmArgs<Bf16, Bf16>;
float* narrowed_scales(const BfGrouped& args) {
  return scales_behind(args.narrowed, args.rows * row_bytes(args.w.dtype, args.w.cols));
}
HopperGroupedArgs grouped_args(const BfGrouped& args) {
  const bool narrows = args.w.dtype == DType::kF8E4M3 || args.w.dtype == DType::kF16;
  return {.dtype = args.w.dtype,
      .x = narrows ? static_cast<const void*>(args.narrowed) : args.x,
      .x_stride = narrows ? args.w.cols : args.x_stride,
      .rows = args.rows,
      .w = args.w.maps,
      .count = args.w.count,
      .n = args.w.rows,
      .k = args.w.cols,
      .offsets = args.offsets,
      .x_scales = narrows && args.narrowed ? narrowed_scales(args) : nullptr,
      .w_scales = args.w.scales,
      .block_scales = args.w.scales && args.w.scale_rows == kBlockSide,
      .biases = args.w.biases,
      .gated = args.gated,
      .y = args.y,
      .y_stride = args.y_stride};
}
bool fits_grouped(const BfGrouped& args, const DeviceInfo& device) {
  const WeightMatrices& w = args.w;
  const bool scales_fit = !w.scales || (w.scale_rows == 1 && w.scale_cols >= w.cols) ||
                          (w.scale_rows == kBlockSide && w.scale_cols == kBlockSide);
  const bool x_fits =
      w.dtype == DType::kBF16 ||
      (args.narrowed && args.x_stride % 8 == 0 && args.narrowed_bytes >= narrowed_x_bytes(args.rows, w.cols));
  return scales_fit && x_fits && hopper_grouped_fits(grouped_args(args), device);
}
// Rows an expert, on average, from which tiles of 128 of them pay.
constexpr int64_t kManyRows = 64;
void run_grouped(const BfGrouped& args, Stream& stream) {
  const HopperGroupedArgs product = grouped_args(args);
  const NarrowRowsArgs narrow{.x = args.x,
      .x_stride = args.x_stride,
      .m = args.rows,
      .k = args.w.cols,
      .y = args.narrowed,
      .scales = narrowed_scales(args)};
  if (args.w.dtype == DType::kF8E4M3) narrow_rows(narrow, stream);
  if (args.w.dtype == DType::kF16) narrow_rows_to_f16(narrow, stream);
  if (args.rows >= kManyRows * args.w.count)
    hopper_grouped_tiles(product, stream);
  else
    hopper_grouped_skinny(product, stream);
}

bool fits_packed_experts(const BfGrouped& args, const DeviceInfo& device) {
  return hopper_packed_experts_fit(grouped_args(args), device);
}
void run_packed_experts(const BfGrouped& args, Stream& stream) {
  hopper_packed_experts(grouped_args(args), stream);
}

template <class X, class Y>
constexpr GroupedGemmVariant<X, Y> kPortableGrouped = {
    "portable", always<GroupedGemmArgs<X, Y>>, grouped_gemm_portable<X, Y>};
template <class X, class Y>
constexpr std::array kGroupedGemmVariants = {kPortableGrouped<X, Y>};
template <>
constexpr std::array kGroupedGemmVariants<Bf16, Bf16> = {
    kPortableGrouped<Bf16, Bf16>,
    GroupedGemmVariant<Bf16, Bf16>{"hopper_experts", fits_grouped, run_grouped},
    GroupedGemmVariant<Bf16, Bf16>{"hopper_packed_experts", fits_packed_experts, run_packed_experts},
};

}  // namespace

std::vector<TensorMap> grouped_weight_maps(std::span<const WeightMatrix> matrices, const DeviceInfo& device) {
  const auto fits = [](const WeightMatrix& w) {
    const int64_t bytes = row_bytes(w.dtype, w.cols);
    return (w.dtype == DType::kBF16 || w.dtype == DType::kF16 || w.dtype == DType::kF8E4M3) && bytes > 0 &&
           bytes % 16 == 0 && reinterpret_cast<uintptr_t>(w.data) % 16 == 0;
  };
  std::vector<TensorMap> maps;
  if (!device.is_hopper()) return maps;
  if (std::ranges::all_of(matrices, can_map_packed)) {
    for (const WeightMatrix& w : matrices) maps.push_back(packed_weight_map(w));
    return maps;
  }
  if (!std::ranges::all_of(matrices, fits)) return maps;
  for (const WeightMatrix& w : matrices) maps.push_back(grouped_weight_map(w.data, w.dtype, w.rows, w.cols));
  return maps;
}

template <class X, class Y>
std::span<const GroupedGemmVariant<X, Y>> grouped_gemm_variants() {
  return kGroupedGemmVariants<X, Y>;
}

template <class X, class Y>
void grouped_gemm(const GroupedGemmArgs<X, Y>& args, Stream& stream) {
  if (args.rows == 0 || args.w.rows == 0 || args.w.count == 0) return;
  CHEETAH_ASSERT(
      args.x_stride >= args.w.cols && args.y_stride >= (args.gated ? args.w.rows / 2 : args.w.rows),
      "rows of x or y overlap");
  best_of(grouped_gemm_variants<X, Y>(), args, stream.device()).run(args, stream);
}

#define CHEETAH_INSTANTIATE(X, Y)                                                   \
  template std::span<const GroupedGemmVariant<X, Y>> grouped_gemm_variants<X, Y>(); \
  template void grouped_gemm<X, Y>(const GroupedGemmArgs<X, Y>&, Stream&)
CHEETAH_INSTANTIATE(float, float);
CHEETAH_INSTANTIATE(Bf16, Bf16);
CHEETAH_INSTANTIATE(Bf16, float);
#undef CHEETAH_INSTANTIATE

}  // namespace cheetah::gpu
