// Every way to compute a product on the device, and the choice between them.
#include <algorithm>
#include <array>
#include <ranges>
#include <type_traits>

#include "base/error.h"
#include "kernels/gemm/cuda/hopper.h"
#include "kernels/gemm/cuda/portable.h"
#include "kernels/gemm/cuda/widen.h"

namespace cheetah::gpu {
namespace {

template <class Args>
bool always(const Args&, const DeviceInfo&) {
  return true;
}

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
template <class Y>
bool fits_skinny(const GemmArgs<Bf16, Y>& args, const DeviceInfo& device) {
  return fits_hopper(args, device) && prefers_skinny(hopper_args(args), device.num_sms);
}
// Rows in groups of as many as the kernel takes.
void run_skinny_in_parts(const HopperGemmArgs& args, Stream& stream) {
  const int64_t x_size = 2, y_size = args.y_dtype == DType::kF32 ? 4 : 2;
  for (int64_t row = 0; row < args.m; row += kMaxSkinnyRows) {
    HopperGemmArgs part = args;
    part.x = static_cast<const std::byte*>(args.x) + row * args.x_stride * x_size;
    part.y = static_cast<std::byte*>(args.y) + row * args.y_stride * y_size;
    if (args.residual)
      part.residual = static_cast<const std::byte*>(args.residual) + row * args.residual_stride * x_size;
    part.m = std::min(kMaxSkinnyRows, args.m - row);
    hopper_skinny_gemm(part, stream);
  }
}
// Only the skinny kernel writes F32. More rows than it takes are the logits of a large batch: W is read again
// for every 64 of them, which is still far from what the portable kernel takes.
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

template <class X, class Y>
constexpr GemmVariant<X, Y> kPortable = {"portable", always<GemmArgs<X, Y>>, gemm_portable<X, Y>};

template <class X, class Y>
constexpr std::array kGemmVariants = {kPortable<X, Y>};
template <>
constexpr std::array kGemmVariants<Bf16, Bf16> = {
    kPortable<Bf16, Bf16>,
    GemmVariant<Bf16, Bf16>{"hopper_widened", fits_widened<Bf16>, run_widened<Bf16>},
    GemmVariant<Bf16, Bf16>{"hopper_tiles", fits_hopper<Bf16>, run_tiles},
    GemmVariant<Bf16, Bf16>{"hopper_skinny", fits_skinny<Bf16>, run_skinny<Bf16>},
};
template <>
constexpr std::array kGemmVariants<Bf16, float> = {
    kPortable<Bf16, float>,
    GemmVariant<Bf16, float>{"hopper_widened", fits_widened<float>, run_widened<float>},
    GemmVariant<Bf16, float>{"hopper_skinny", fits_hopper<float>, run_skinny<float>},
};

template <class X, class Y>
constexpr std::array kGroupedGemmVariants = {
    GroupedGemmVariant<X, Y>{"portable", always<GroupedGemmArgs<X, Y>>, grouped_gemm_portable<X, Y>},
};

template <class Args>
void run_best(std::span<const ProductVariant<Args>> variants, const Args& args, Stream& stream) {
  const auto fits = [&](const ProductVariant<Args>& variant) { return variant.fits(args, stream.device()); };
  std::ranges::find_if(variants | std::views::reverse, fits)->run(args, stream);
}

}  // namespace

template <class X, class Y>
std::span<const GemmVariant<X, Y>> gemm_variants() {
  return kGemmVariants<X, Y>;
}

template <class X, class Y>
std::span<const GroupedGemmVariant<X, Y>> grouped_gemm_variants() {
  return kGroupedGemmVariants<X, Y>;
}

template <class X, class Y>
void gemm(const GemmArgs<X, Y>& args, Stream& stream) {
  if (args.m == 0 || args.w.rows == 0) return;
  CHEETAH_ASSERT(args.x_stride >= args.w.cols && args.y_stride >= args.outputs(), "rows of x or y overlap");
  CHEETAH_ASSERT(!args.gated || args.w.rows % 2 == 0, "as many gates as what they let through");
  run_best(gemm_variants<X, Y>(), args, stream);
}

template <class X, class Y>
void grouped_gemm(const GroupedGemmArgs<X, Y>& args, Stream& stream) {
  if (args.rows == 0 || args.w.rows == 0 || args.w.count == 0) return;
  CHEETAH_ASSERT(args.x_stride >= args.w.cols && args.y_stride >= args.w.rows, "rows of x or y overlap");
  run_best(grouped_gemm_variants<X, Y>(), args, stream);
}

#define CHEETAH_INSTANTIATE(X, Y)                                                   \
  template std::span<const GemmVariant<X, Y>> gemm_variants<X, Y>();                \
  template std::span<const GroupedGemmVariant<X, Y>> grouped_gemm_variants<X, Y>(); \
  template void gemm<X, Y>(const GemmArgs<X, Y>&, Stream&);                         \
  template void grouped_gemm<X, Y>(const GroupedGemmArgs<X, Y>&, Stream&)
CHEETAH_INSTANTIATE(float, float);
CHEETAH_INSTANTIATE(Bf16, Bf16);
CHEETAH_INSTANTIATE(Bf16, float);
#undef CHEETAH_INSTANTIATE

}  // namespace cheetah::gpu
