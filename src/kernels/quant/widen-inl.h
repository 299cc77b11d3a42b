// SIMD widening of stored weights to F32, once per instruction set. Included by foreach_target sources only.
// Every value is exact: each format's product fits 24 bits, so at most one rounding (the add of a minimum)
// happens here as in the reference.
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
#include "kernels/quant/blocks.h"
#include "tensor/dtype.h"
#include "tensor/float16.h"

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

// 8-bit and 4-bit levels go through vectors of at most 16 lanes: half a 32-element block.
using BlockTag = hn::CappedTag<float, 16>;
inline constexpr int kBlockLanes = static_cast<int>(hn::MaxLanes(BlockTag()));

HWY_INLINE hn::Vec<BlockTag> levels_to_float(const uint8_t* levels) {
  const hn::Rebind<int32_t, BlockTag> wide;
  const hn::Rebind<uint8_t, BlockTag> narrow;
  return hn::ConvertTo(BlockTag(), hn::PromoteTo(wide, hn::LoadU(narrow, levels)));
}

HWY_INLINE void widen_q8_0(const std::byte* from, float* out, int64_t elements) {
  const BlockTag d;
  const hn::Rebind<int32_t, BlockTag> wide;
  const hn::Rebind<int8_t, BlockTag> narrow;
  const auto* block = reinterpret_cast<const BlockQ8_0*>(from);
  for (int64_t i = 0; i < elements; i += 32, ++block) {
    const auto scale = hn::Set(d, f16_to_f32(block->d));
    for (int j = 0; j < 32; j += kBlockLanes) {
      const auto q = hn::ConvertTo(d, hn::PromoteTo(wide, hn::LoadU(narrow, block->q + j)));
      hn::StoreU(hn::Mul(q, scale), d, out + i + j);
    }
  }
}

// 16 bytes to 16 low and 16 high nibbles, one level a byte.
HWY_INLINE void split_nibbles(const uint8_t* packed, uint8_t* low, uint8_t* high) {
  const hn::CappedTag<uint8_t, 16> d8;
  const auto mask = hn::Set(d8, uint8_t{15});
  for (size_t j = 0; j < 16; j += hn::MaxLanes(d8)) {
    const auto both = hn::LoadU(d8, packed + j);
    hn::Store(hn::And(both, mask), d8, low + j);
    hn::Store(hn::ShiftRight<4>(both), d8, high + j);
  }
}

HWY_INLINE void widen_q4_0(const std::byte* from, float* out, int64_t elements) {
  const BlockTag d;
  const auto* block = reinterpret_cast<const BlockQ4_0*>(from);
  HWY_ALIGN uint8_t levels[32];
  for (int64_t i = 0; i < elements; i += 32, ++block) {
    split_nibbles(block->q, levels, levels + 16);
    const auto scale = hn::Set(d, f16_to_f32(block->d));
    for (int j = 0; j < 32; j += kBlockLanes)
      hn::StoreU(hn::Mul(hn::Sub(levels_to_float(levels + j), hn::Set(d, 8.f)), scale), d, out + i + j);
  }
}

HWY_INLINE void widen_q4_k(const std::byte* from, float* out, int64_t elements) {
  const BlockTag d;
  const auto* block = reinterpret_cast<const BlockQ4_K*>(from);
  HWY_ALIGN uint8_t levels[2][32];
  for (int64_t i = 0; i < elements; i += 256, ++block) {
    const float block_scale = f16_to_f32(block->d), block_min = f16_to_f32(block->dmin);
    for (int s = 0; s < 8; ++s) {
      if (s % 2 == 0) {
        split_nibbles(block->q + s * 16, levels[0], levels[1]);
        split_nibbles(block->q + s * 16 + 16, levels[0] + 16, levels[1] + 16);
      }
      const ScaleAndMin pair = scale_and_min(block->scales, s);
      const auto scale = hn::Set(d, block_scale * static_cast<float>(pair.scale));
      const auto min = hn::Set(d, block_min * static_cast<float>(pair.min));
      for (int j = 0; j < 32; j += kBlockLanes)
        hn::StoreU(hn::Sub(hn::Mul(levels_to_float(levels[s % 2] + j), scale), min), d, out + i + s * 32 + j);
    }
  }
}

}  // namespace
}  // namespace cheetah::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
