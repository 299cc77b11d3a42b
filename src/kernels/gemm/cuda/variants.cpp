// SPDX-License-Identifier: MIT
// Every way to compute a product on the device, and the choice between them.
#include <algorithm>
#include <array>
#include <ranges>
#include <string_view>
#include <type_traits>

#include "base/error.h"
#include "kernels/gemm/cuda/cublaslt.h"
#include "kernels/gemm/cuda/few_rows.h"
#include "kernels/gemm/cuda/hopper.h"
#include "kernels/gemm/cuda/hopper_blocks.h"
#include "kernels/gemm/cuda/hopper_packed.h"
#include "kernels/gemm/cuda/portable.h"
#include "kernels/gemm/cuda/tuned.h"
#include "kernels/gemm/cuda/variants.h"
#include "kernels/gemm/cuda/widen.h"

namespace cheetah::gpu {
namespace {

template <class Y>
HopperGemmArgs hopper_args(const GemmArgs<Bf16, Y>& args) {
  return {.dtype = args.w.dtype,
      .x = args.x,
      .x_stride = args.x_stride,
      .m = args.m,
      .w = args.w.data,
      .n = args.w.rows,
      .k = args.w.cols,
      .bias = args.bias,
      .residual = args.residual,
      .residual_stride = args.residual_stride,
      .gated = args.gated,
      .y_dtype = std::is_same_v<Y, float> ? DType::kF32 : DType::kBF16,
      .y = args.y,
      .y_stride = args.y_stride};
}
template <class Y>
bool fits_hopper(const GemmArgs<Bf16, Y>& args, const DeviceInfo& device) {
  const bool residual_fits = std::is_same_v<Y, Bf16> || !args.residual;  // there it has x's type
  return args.w.dtype == DType::kBF16 && residual_fits && hopper_gemm_fits(hopper_args(args), device);
}
// Above so many rows the skinny kernel is not worth a thought: it reads W again for every 64 of them.
constexpr int64_t kMostSkinnyRows = 4 * kMaxSkinnyRows;
bool fits_skinny(const GemmArgs<Bf16, Bf16>& args, const DeviceInfo& device) {
  return args.m <= kMostSkinnyRows && fits_hopper(args, device);
}
bool skinny_pays(const GemmArgs<Bf16, Bf16>& args, const DeviceInfo& device) {
  return prefers_skinny(hopper_args(args), device.num_sms);
}
// Rows in groups of as many as the kernel takes. Where the tiles cannot follow, W is read once for 256 rows.
void run_skinny_in_parts(const HopperGemmArgs& args, Stream& stream) {
  const int64_t x_size = args.dtype == DType::kF8E4M3 ? 1 : 2, y_size = args.y_dtype == DType::kF32 ? 4 : 2,
                residual_size = 2;
  const bool is_wide = args.y_dtype == DType::kF32 && hopper_wide_fits(args);
  const int64_t most = is_wide ? kMaxWideRows : kMaxSkinnyRows;
  for (int64_t row = 0; row < args.m; row += most) {
    HopperGemmArgs part = args;
    part.x = static_cast<const std::byte*>(args.x) + row * args.x_stride * x_size;
    part.y = static_cast<std::byte*>(args.y) + row * args.y_stride * y_size;
    if (args.residual)
      part.residual =
          static_cast<const std::byte*>(args.residual) + row * args.residual_stride * residual_size;
    if (args.x_scales) part.x_scales += row;
    part.m = std::min(most, args.m - row);
    if (part.m > kMaxSkinnyRows)
      hopper_wide_gemm(part, stream);
    else
      hopper_skinny_gemm(part, stream);
  }
}
// Only the skinny kernel writes F32.
template <class Y>
void run_skinny(const GemmArgs<Bf16, Y>& args, Stream& stream) {
  run_skinny_in_parts(hopper_args(args), stream);
}
void run_tiles(const GemmArgs<Bf16, Bf16>& args, Stream& stream) {
  hopper_tile_gemm(hopper_args(args), stream);
}

// Rows of W that fit the room for them. Gates and what they let through cannot be parted.
template <class Y>
int64_t widened_rows(const GemmArgs<Bf16, Y>& args) {
  constexpr int64_t kAlignment = 128;  // of the outputs a part starts at
  const int64_t room = args.w.cols > 0 ? args.widened_numbers / args.w.cols : 0;
  if (room >= args.w.rows) return args.w.rows;
  return args.gated ? 0 : room / kAlignment * kAlignment;
}
// The product of rows [first, first + count) of W once they lie widened.
template <class Y>
HopperGemmArgs widened_part(const GemmArgs<Bf16, Y>& args, int64_t first, int64_t count) {
  GemmArgs<Bf16, Y> part = args;
  part.w = {.dtype = DType::kBF16,
      .rows = count,
      .cols = args.w.cols,
      .data = reinterpret_cast<const std::byte*>(args.widened)};
  if (args.bias) part.bias += first;
  if (args.residual) part.residual += first;
  part.y += first;
  HopperGemmArgs result = hopper_args(part);
  result.w_is_settled = false;
  return result;
}
template <class Y>
bool fits_widened(const GemmArgs<Bf16, Y>& args, const DeviceInfo& device) {
  const int64_t count = widened_rows(args);
  const bool residual_fits = std::is_same_v<Y, Bf16> || !args.residual;
  return args.widened && can_widen(args.w.dtype) && count > 0 && residual_fits && args.w.rows % 8 == 0 &&
         hopper_gemm_fits(widened_part(args, 0, count), device);
}
// F32 loses digits, so that it is rounded only where reading it as it is takes longer.
template <class Y>
bool widened_pays(const GemmArgs<Bf16, Y>& args, const DeviceInfo& device) {
  return args.w.dtype != DType::kF32 || !few_rows_fit(args, device) || !few_rows_pay(args, device);
}
template <class Y>
void run_widened(const GemmArgs<Bf16, Y>& args, Stream& stream) {
  const int64_t most = widened_rows(args);
  for (int64_t first = 0; first < args.w.rows; first += most) {
    const int64_t count = std::min(most, args.w.rows - first);
    widen_rows(args.w, first, count, args.widened, stream);
    const HopperGemmArgs part = widened_part(args, first, count);
    if (std::is_same_v<Y, Bf16> && !prefers_skinny(part, stream.device().num_sms))
      hopper_tile_gemm(part, stream);
    else
      run_skinny_in_parts(part, stream);
  }
}

bool scales_fit(const WeightScales& scales, const WeightMatrix& w) {
  return !scales.data || w.has_row_scales() || (scales.rows == kBlockSide && scales.cols == kBlockSide);
}
template <class Y>
HopperGemmArgs fp8_args(const GemmArgs<Bf16, Y>& args) {
  HopperGemmArgs result = hopper_args(args);
  result.x = args.narrowed;
  result.x_stride = args.w.cols;
  result.x_scales = scales_behind(args.narrowed, args.m * args.w.cols);
  result.w_scales = args.w.scales.data;
  result.block_scales = args.w.scales.data && !args.w.has_row_scales();
  return result;
}
template <class Y>
bool fits_fp8(const GemmArgs<Bf16, Y>& args, const DeviceInfo& device) {
  const bool residual_fits = std::is_same_v<Y, Bf16> || !args.residual;
  return args.w.dtype == DType::kF8E4M3 && args.narrowed && residual_fits &&
         scales_fit(args.w.scales, args.w) && args.narrowed_bytes >= narrowed_x_bytes(args.m, args.w.cols) &&
         args.x_stride % 8 == 0 && hopper_gemm_fits(fp8_args(args), device);
}
bool fits_fp8_skinny(const GemmArgs<Bf16, Bf16>& args, const DeviceInfo& device) {
  return args.m <= kMostSkinnyRows && fits_fp8(args, device);
}
bool fp8_skinny_pays(const GemmArgs<Bf16, Bf16>& args, const DeviceInfo& device) {
  return prefers_skinny(fp8_args(args), device.num_sms);
}
template <class Y>
void narrow_x(const GemmArgs<Bf16, Y>& args, Stream& stream) {
  narrow_rows({.x = args.x,
                  .x_stride = args.x_stride,
                  .m = args.m,
                  .k = args.w.cols,
                  .y = args.narrowed,
                  .scales = scales_behind(args.narrowed, args.m * args.w.cols)},
      stream);
}
template <class Y>
void run_fp8_skinny(const GemmArgs<Bf16, Y>& args, Stream& stream) {
  narrow_x(args, stream);
  run_skinny_in_parts(fp8_args(args), stream);
}
void run_fp8_tiles(const GemmArgs<Bf16, Bf16>& args, Stream& stream) {
  narrow_x(args, stream);
  hopper_tile_gemm(fp8_args(args), stream);
}

// F16: rows of x become F16 too, each with a power of two that makes its numbers fit. No digit is lost.
template <class Y>
HopperGemmArgs f16_args(const GemmArgs<Bf16, Y>& args) {
  HopperGemmArgs result = hopper_args(args);
  result.x = args.narrowed;
  result.x_stride = args.w.cols;
  result.x_scales = scales_behind(args.narrowed, 2 * args.m * args.w.cols);
  return result;
}
template <class Y>
bool fits_f16(const GemmArgs<Bf16, Y>& args, const DeviceInfo& device) {
  const bool residual_fits = std::is_same_v<Y, Bf16> || !args.residual;
  return args.w.dtype == DType::kF16 && args.narrowed && residual_fits && args.x_stride % 8 == 0 &&
         args.narrowed_bytes >= narrowed_x_bytes(args.m, args.w.cols) &&
         hopper_gemm_fits(f16_args(args), device);
}
bool fits_f16_skinny(const GemmArgs<Bf16, Bf16>& args, const DeviceInfo& device) {
  return args.m <= kMostSkinnyRows && fits_f16(args, device);
}
bool f16_skinny_pays(const GemmArgs<Bf16, Bf16>& args, const DeviceInfo& device) {
  return prefers_skinny(f16_args(args), device.num_sms);
}
template <class Y>
void narrow_x_to_f16(const GemmArgs<Bf16, Y>& args, Stream& stream) {
  narrow_rows_to_f16({.x = args.x,
                         .x_stride = args.x_stride,
                         .m = args.m,
                         .k = args.w.cols,
                         .y = args.narrowed,
                         .scales = scales_behind(args.narrowed, 2 * args.m * args.w.cols)},
      stream);
}
template <class Y>
void run_f16_skinny(const GemmArgs<Bf16, Y>& args, Stream& stream) {
  narrow_x_to_f16(args, stream);
  run_skinny_in_parts(f16_args(args), stream);
}
void run_f16_tiles(const GemmArgs<Bf16, Bf16>& args, Stream& stream) {
  narrow_x_to_f16(args, stream);
  hopper_tile_gemm(f16_args(args), stream);
}

// NVIDIA's library, where the table says so: our own kernels come after it in the list and take what it
// takes. The room for widened rows, which these products do not need, is its workspace. Measured on Hopper
// alone.
template <class Y>
HopperGemmArgs with_workspace(HopperGemmArgs product, const GemmArgs<Bf16, Y>& args) {
  product.workspace = reinterpret_cast<std::byte*>(args.widened);
  product.workspace_bytes = args.widened_numbers * static_cast<int64_t>(sizeof(Bf16));
  return product;
}
template <class Y>
bool fits_library(const GemmArgs<Bf16, Y>& args, const DeviceInfo& device) {
  const bool residual_fits = std::is_same_v<Y, Bf16> || !args.residual;
  return device.is_hopper() && args.w.dtype == DType::kBF16 && residual_fits &&
         cublaslt_fits(with_workspace(hopper_args(args), args));
}
template <class Y>
void run_library(const GemmArgs<Bf16, Y>& args, Stream& stream) {
  cublaslt_gemm(with_workspace(hopper_args(args), args), stream);
}
bool fits_fp8_library(const GemmArgs<Bf16, Bf16>& args, const DeviceInfo& device) {
  return fits_fp8(args, device) && cublaslt_fits(with_workspace(fp8_args(args), args));
}
void run_fp8_library(const GemmArgs<Bf16, Bf16>& args, Stream& stream) {
  narrow_x(args, stream);
  cublaslt_gemm(with_workspace(fp8_args(args), args), stream);
}

template <class Y>
HopperBlocksArgs blocks_args(const GemmArgs<Bf16, Y>& args) {
  return {.x = args.x,
      .x_stride = args.x_stride,
      .m = args.m,
      .w = args.w,
      .bias = args.bias,
      .gated = args.gated,
      .residual = reinterpret_cast<const Bf16*>(args.residual),
      .residual_stride = args.residual_stride,
      .f32_output = std::is_same_v<Y, float>,
      .y = args.y,
      .y_stride = args.y_stride};
}
template <class Y>
bool fits_blocks(const GemmArgs<Bf16, Y>& args, const DeviceInfo& device) {
  const bool residual_fits = std::is_same_v<Y, Bf16> || !args.residual;
  return residual_fits && hopper_blocks_fits(blocks_args(args), device);
}
template <class Y>
void run_blocks(const GemmArgs<Bf16, Y>& args, Stream& stream) {
  hopper_blocks_gemm(blocks_args(args), stream);
}

// Above so many rows of x, widening W once costs less than unpacking it for every 64 of them; and integer
// products cost less than that as long as few rows ask for them (H200).
constexpr int64_t most_packed_rows(DType dtype) {
  return dtype == DType::kQ8_0 || dtype == DType::kQ6_K ? 192 : 256;
}
constexpr int64_t most_integer_rows(DType dtype) {
  return dtype == DType::kMXFP4 ? 0 : dtype == DType::kQ8_0 ? 4 : 1;
}
template <class Y>
bool fits_packed(const GemmArgs<Bf16, Y>& args, const DeviceInfo& device) {
  const bool residual_fits = std::is_same_v<Y, Bf16> || !args.residual;
  return args.m <= most_packed_rows(args.w.dtype) && residual_fits &&
         hopper_packed_fits(blocks_args(args), device);
}
template <class Y>
bool packed_pays(const GemmArgs<Bf16, Y>& args, const DeviceInfo&) {
  return args.m > most_integer_rows(args.w.dtype);
}
template <class Y>
void run_packed(const GemmArgs<Bf16, Y>& args, Stream& stream) {
  hopper_packed_gemm(blocks_args(args), stream);
}

template <class X, class Y>
constexpr GemmVariant<X, Y> kPortable = {"portable", always<GemmArgs<X, Y>>, gemm_portable<X, Y>};

template <class X, class Y>
constexpr GemmVariant<X, Y> kFewRows = {
    "few_rows", few_rows_fit<X, Y>, gemm_few_rows<X, Y>, few_rows_pay<X, Y>};

template <class X, class Y>
constexpr std::array kGemmVariants = {kPortable<X, Y>, kFewRows<X, Y>};
template <>
constexpr std::array kGemmVariants<Bf16, Bf16> = {
    kPortable<Bf16, Bf16>,
    kFewRows<Bf16, Bf16>,
    GemmVariant<Bf16, Bf16>{"cublaslt", fits_library<Bf16>, run_library<Bf16>},
    GemmVariant<Bf16, Bf16>{"cublaslt_fp8", fits_fp8_library, run_fp8_library},
    GemmVariant<Bf16, Bf16>{"hopper_widened", fits_widened<Bf16>, run_widened<Bf16>, widened_pays<Bf16>},
    GemmVariant<Bf16, Bf16>{"hopper_fp8_tiles", fits_fp8<Bf16>, run_fp8_tiles},
    GemmVariant<Bf16, Bf16>{"hopper_fp8_skinny", fits_fp8_skinny, run_fp8_skinny<Bf16>, fp8_skinny_pays},
    GemmVariant<Bf16, Bf16>{"hopper_f16_tiles", fits_f16<Bf16>, run_f16_tiles},
    GemmVariant<Bf16, Bf16>{"hopper_f16_skinny", fits_f16_skinny, run_f16_skinny<Bf16>, f16_skinny_pays},
    GemmVariant<Bf16, Bf16>{"hopper_blocks", fits_blocks<Bf16>, run_blocks<Bf16>},
    GemmVariant<Bf16, Bf16>{"hopper_packed", fits_packed<Bf16>, run_packed<Bf16>, packed_pays<Bf16>},
    GemmVariant<Bf16, Bf16>{"hopper_tiles", fits_hopper<Bf16>, run_tiles},
    GemmVariant<Bf16, Bf16>{"hopper_skinny", fits_skinny, run_skinny<Bf16>, skinny_pays},
};
template <>
constexpr std::array kGemmVariants<Bf16, float> = {
    kPortable<Bf16, float>,
    kFewRows<Bf16, float>,
    GemmVariant<Bf16, float>{"cublaslt", fits_library<float>, run_library<float>},
    GemmVariant<Bf16, float>{"hopper_widened", fits_widened<float>, run_widened<float>, widened_pays<float>},
    GemmVariant<Bf16, float>{"hopper_fp8_skinny", fits_fp8<float>, run_fp8_skinny<float>},
    GemmVariant<Bf16, float>{"hopper_f16_skinny", fits_f16<float>, run_f16_skinny<float>},
    GemmVariant<Bf16, float>{"hopper_blocks", fits_blocks<float>, run_blocks<float>},
    GemmVariant<Bf16, float>{"hopper_packed", fits_packed<float>, run_packed<float>, packed_pays<float>},
    GemmVariant<Bf16, float>{"hopper_skinny", fits_hopper<float>, run_skinny<float>},
};

}  // namespace

template <class X, class Y>
std::span<const GemmVariant<X, Y>> gemm_variants() {
  return kGemmVariants<X, Y>;
}

template <class X, class Y>
const GemmVariant<X, Y>& choose_gemm(const GemmArgs<X, Y>& args, const DeviceInfo& device) {
  const std::span<const GemmVariant<X, Y>> variants = gemm_variants<X, Y>();
  const std::string_view tuned =
      tuned_variant({.dtype = args.w.dtype, .n = args.w.rows, .k = args.w.cols, .m = args.m}, device);
  const auto named =
      std::ranges::find_if(variants, [&](const auto& variant) { return variant.name == tuned; });
  if (named != variants.end() && named->fits(args, device)) return *named;
  return best_of(variants, args, device);
}

template <class X, class Y>
void gemm(const GemmArgs<X, Y>& args, Stream& stream) {
  if (args.m == 0 || args.w.rows == 0) return;
  CHEETAH_ASSERT(args.x_stride >= args.w.cols && args.y_stride >= args.outputs(), "rows of x or y overlap");
  CHEETAH_ASSERT(!args.gated || args.w.rows % 2 == 0, "as many gates as what they let through");
  choose_gemm(args, stream.device()).run(args, stream);
}

#define CHEETAH_INSTANTIATE(X, Y)                                                                \
  template std::span<const GemmVariant<X, Y>> gemm_variants<X, Y>();                             \
  template const GemmVariant<X, Y>& choose_gemm<X, Y>(const GemmArgs<X, Y>&, const DeviceInfo&); \
  template void gemm<X, Y>(const GemmArgs<X, Y>&, Stream&)
CHEETAH_INSTANTIATE(float, float);
CHEETAH_INSTANTIATE(Bf16, Bf16);
CHEETAH_INSTANTIATE(Bf16, float);
#undef CHEETAH_INSTANTIATE

}  // namespace cheetah::gpu
