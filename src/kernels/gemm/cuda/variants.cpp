// Every way to compute a product on the device, and the choice between them.
#include <algorithm>
#include <array>
#include <ranges>

#include "base/error.h"
#include "kernels/gemm/cuda/portable.h"

namespace cheetah::gpu {
namespace {

template <class Args>
bool always(const Args&, const DeviceInfo&) {
  return true;
}

template <class X, class Y>
constexpr std::array kGemmVariants = {
    GemmVariant<X, Y>{"portable", always<GemmArgs<X, Y>>, gemm_portable<X, Y>},
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
  CHEETAH_ASSERT(args.x_stride >= args.w.cols && args.y_stride >= args.w.rows, "rows of x or y overlap");
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
