// SPDX-License-Identifier: MIT
// Every way to attend on the device, and the choice between them.
#include <algorithm>
#include <array>

#include "base/error.h"
#include "kernels/attention/cuda/hopper.h"
#include "kernels/attention/cuda/mma.h"
#include "kernels/attention/cuda/portable.h"

namespace cheetah::gpu {
namespace {

template <class T>
constexpr AttentionVariant<T> kPortable = {
    "portable", [](const AttentionArgs<T>&, const DeviceInfo&) { return true; }, attention_portable<T>};

template <class T>
constexpr std::array kVariants = {kPortable<T>};
template <>
constexpr std::array kVariants<Bf16> = {
    kPortable<Bf16>,
    AttentionVariant<Bf16>{"mma", mma_attention_fits, mma_attention},
    AttentionVariant<Bf16>{"hopper", hopper_attention_fits, hopper_attention},
};

}  // namespace

template <class T>
std::span<const AttentionVariant<T>> attention_variants() {
  return kVariants<T>;
}

template <class T>
void attention(const AttentionArgs<T>& args, Stream& stream) {
  if (args.batch.rows == 0) return;
  CHEETAH_ASSERT(args.kv.kv_heads > 0 && args.heads % args.kv.kv_heads == 0, "heads share keys evenly");
  const auto fits = [&](const AttentionVariant<T>& variant) { return variant.fits(args, stream.device()); };
  const auto variants = attention_variants<T>();
  std::find_if(variants.rbegin(), variants.rend(), fits)->run(args, stream);
}

#define CHEETAH_INSTANTIATE(T)                                           \
  template std::span<const AttentionVariant<T>> attention_variants<T>(); \
  template void attention<T>(const AttentionArgs<T>&, Stream&)
CHEETAH_INSTANTIATE(float);
CHEETAH_INSTANTIATE(Bf16);
#undef CHEETAH_INSTANTIATE

}  // namespace cheetah::gpu
