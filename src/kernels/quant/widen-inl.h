// SPDX-License-Identifier: MIT
// SIMD widening of plain types to F32, once per instruction set. Included by foreach_target sources only.
#if defined(CHEETAH_KERNELS_QUANT_WIDEN_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CHEETAH_KERNELS_QUANT_WIDEN_INL_H_
#undef CHEETAH_KERNELS_QUANT_WIDEN_INL_H_
#else
#define CHEETAH_KERNELS_QUANT_WIDEN_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cheetah::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
using FloatVector = hn::Vec<FloatTag>;
inline constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(FloatTag()));

// One vector of F32 from kLanes stored elements at `from` (any alignment).
struct WidenF32 {
  static constexpr int64_t kBytes = 4;
  static HWY_INLINE FloatVector load(const std::byte* from) {
    return hn::LoadU(FloatTag(), reinterpret_cast<const float*>(from));
  }
};

struct WidenBF16 {
  static constexpr int64_t kBytes = 2;
  static HWY_INLINE FloatVector load(const std::byte* from) {
    const hn::RebindToUnsigned<FloatTag> wide;
    const hn::Rebind<uint16_t, FloatTag> narrow;
    const auto bits = hn::LoadU(narrow, reinterpret_cast<const uint16_t*>(from));
    return hn::BitCast(FloatTag(), hn::ShiftLeft<16>(hn::PromoteTo(wide, bits)));
  }
};

struct WidenF16 {
  static constexpr int64_t kBytes = 2;
  static HWY_INLINE FloatVector load(const std::byte* from) {
#if HWY_ARCH_X86 && HWY_TARGET > HWY_AVX2
    // No conversion instruction: moving the exponent's bias by a multiplication is right for subnormals too.
    const FloatTag d;
    const hn::RebindToUnsigned<FloatTag> wide;
    const hn::Rebind<uint16_t, FloatTag> narrow;
    const auto half = hn::PromoteTo(wide, hn::LoadU(narrow, reinterpret_cast<const uint16_t*>(from)));
    const auto magnitude = hn::ShiftLeft<13>(hn::And(half, hn::Set(wide, 0x7FFFu)));
    const auto sign = hn::ShiftLeft<16>(hn::And(half, hn::Set(wide, 0x8000u)));
    const auto special =
        hn::IfThenElseZero(hn::Ge(hn::BitCast(d, magnitude), hn::BitCast(d, hn::Set(wide, 0x0F800000u))),
            hn::BitCast(d, hn::Set(wide, 0x7F800000u)));
    const auto moved = hn::Mul(hn::BitCast(d, magnitude), hn::Set(d, 0x1p112f));
    return hn::Or(hn::Or(moved, special), hn::BitCast(d, sign));
#else
    const hn::Rebind<hwy::float16_t, FloatTag> narrow;
    return hn::PromoteTo(FloatTag(), hn::LoadU(narrow, reinterpret_cast<const hwy::float16_t*>(from)));
#endif
  }
};

template <class Widen>
HWY_INLINE void widen_plain(const std::byte* from, float* out, int64_t elements) {
  int64_t i = 0;
  for (; i + kLanes <= elements; i += kLanes)
    hn::StoreU(Widen::load(from + i * Widen::kBytes), FloatTag(), out + i);
  if (i >= elements) return;
  HWY_ALIGN float values[kLanes];
  std::byte padded[kLanes * 4] = {};
  std::memcpy(padded, from + i * Widen::kBytes, static_cast<size_t>((elements - i) * Widen::kBytes));
  hn::Store(Widen::load(padded), FloatTag(), values);
  std::memcpy(out + i, values, static_cast<size_t>(elements - i) * sizeof(float));
}

}  // namespace
}  // namespace cheetah::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
