// Every way to compute a product on the device, and the choice between them.
#include <algorithm>
#include <array>
#include <ranges>
#include <type_traits>

#include "base/error.h"
#include "kernels/gemm/cuda/hopper.h"
#include "kernels/gemm/cuda/portable.h"

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
  return args.m <= kMaxSkinnyRows && fits_hopper(args, device);
}
void run_skinny(const GemmArgs<Bf16, Bf16>& args, Stream& stream) {
  hopper_skinny_gemm(hopper_args(args), stream);
}
// Only the skinny kernel writes F32. More rows than it takes are the logits of a large batch: W is read again
// for every 64 of them, which is still far from what the portable kernel takes.
void run_skinny_in_parts(const GemmArgs<Bf16, float>& args, Stream& stream) {
  for (int64_t row = 0; row < args.m; row += kMaxSkinnyRows) {
    GemmArgs<Bf16, float> part = args;
    part.x += row * args.x_stride;
    part.y += row * args.y_stride;
    part.m = std::min(kMaxSkinnyRows, args.m - row);
    hopper_skinny_gemm(hopper_args(part), stream);
  }
}
void run_tiles(const GemmArgs<Bf16, Bf16>& args, Stream& stream) {
  hopper_tile_gemm(hopper_args(args), stream);
}

template <class X, class Y>
constexpr GemmVariant<X, Y> kPortable = {"portable", always<GemmArgs<X, Y>>, gemm_portable<X, Y>};

template <class X, class Y>
constexpr std::array kGemmVariants = {kPortable<X, Y>};
template <>
constexpr std::array kGemmVariants<Bf16, Bf16> = {
    kPortable<Bf16, Bf16>,
    GemmVariant<Bf16, Bf16>{"hopper_tiles", fits_hopper<Bf16>, run_tiles},
    GemmVariant<Bf16, Bf16>{"hopper_skinny", fits_skinny<Bf16>, run_skinny},
};
template <>
constexpr std::array kGemmVariants<Bf16, float> = {
    kPortable<Bf16, float>,
    GemmVariant<Bf16, float>{"hopper_skinny", fits_hopper<float>, run_skinny_in_parts},
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
