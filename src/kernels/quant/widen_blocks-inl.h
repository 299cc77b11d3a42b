// SPDX-License-Identifier: MIT
// SIMD widening of every stored type to F32, once per instruction set. Included by foreach_target sources
// only. Each format's product fits 24 bits, so at most one rounding (the subtraction of a minimum) happens,
// here as in the reference: the bits are the same.
#if defined(CHEETAH_KERNELS_QUANT_WIDEN_BLOCKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CHEETAH_KERNELS_QUANT_WIDEN_BLOCKS_INL_H_
#undef CHEETAH_KERNELS_QUANT_WIDEN_BLOCKS_INL_H_
#else
#define CHEETAH_KERNELS_QUANT_WIDEN_BLOCKS_INL_H_
#endif

#include <bit>

#include "kernels/quant/blocks.h"
#include "kernels/quant/widen-inl.h"
#include "tensor/dtype.h"
#include "tensor/float16.h"

HWY_BEFORE_NAMESPACE();
namespace cheetah::HWY_NAMESPACE {
namespace {

using BlockTag = hn::CappedTag<float, 16>;  // the smallest sub-block
inline constexpr int kBlockLanes = static_cast<int>(hn::MaxLanes(BlockTag()));

// out[i] = scale * level[i]; Level is int8_t or uint8_t.
template <class Level>
HWY_INLINE hn::Vec<BlockTag> to_float(const Level* levels) {
  const hn::Rebind<int32_t, BlockTag> wide;
  const hn::Rebind<Level, BlockTag> narrow;
  return hn::ConvertTo(BlockTag(), hn::PromoteTo(wide, hn::LoadU(narrow, levels)));
}

template <int kCount>
HWY_INLINE void scale_signed(const int8_t* levels, float scale, float* out) {
  const BlockTag d;
  for (int i = 0; i < kCount; i += kBlockLanes)
    hn::StoreU(hn::Mul(to_float(levels + i), hn::Set(d, scale)), d, out + i);
}

// out[i] = scale * level[i] - min.
HWY_INLINE void scale_with_min(const uint8_t* levels, float scale, float min, float* out) {
  const BlockTag d;
  for (int i = 0; i < 32; i += kBlockLanes)
    hn::StoreU(hn::Sub(hn::Mul(to_float(levels + i), hn::Set(d, scale)), hn::Set(d, min)), d, out + i);
}

// out[i] = scale * (level[i] - offset).
template <int kCount>
HWY_INLINE void scale_centred(const uint8_t* levels, float offset, float scale, float* out) {
  const BlockTag d;
  for (int i = 0; i < kCount; i += kBlockLanes)
    hn::StoreU(hn::Mul(hn::Sub(to_float(levels + i), hn::Set(d, offset)), hn::Set(d, scale)), d, out + i);
}

using ByteTag = hn::CappedTag<uint8_t, 16>;
inline constexpr int kByteLanes = static_cast<int>(hn::MaxLanes(ByteTag()));

// Low nibbles to levels[0..count), high nibbles to the `count` after them.
HWY_INLINE void split_nibbles(const uint8_t* packed, int count, uint8_t* levels) {
  const ByteTag d;
  for (int i = 0; i < count; i += kByteLanes) {
    const auto both = hn::LoadU(d, packed + i);
    hn::StoreU(hn::And(both, hn::Set(d, uint8_t{15})), d, levels + i);
    hn::StoreU(hn::ShiftRight<4>(both), d, levels + count + i);
  }
}

// levels[i] gets bits kShift.. of high[i], as many as kMask has, above its four.
template <int kShift, int kMask>
HWY_INLINE void add_high_bits(const uint8_t* high, uint8_t* levels) {
  const ByteTag d;
  for (int i = 0; i < 32; i += kByteLanes) {
    const auto bits = hn::And(hn::ShiftRight<kShift>(hn::LoadU(d, high + i)), hn::Set(d, uint8_t{kMask}));
    hn::StoreU(hn::Or(hn::LoadU(d, levels + i), hn::ShiftLeft<4>(bits)), d, levels + i);
  }
}

template <class Block>
HWY_INLINE void add_fifth_bits(const Block& block, uint8_t* levels) {
  if constexpr (kByteLanes == 16) {
    const ByteTag d;
    for (int i = 0; i < 32; i += 16) {  // reads eight bytes, all in the block
      const auto mask =
          hn::LoadMaskBits(d, reinterpret_cast<const uint8_t*>(&block) + offsetof(Block, high) + i / 8);
      const auto fifth = hn::IfThenElseZero(mask, hn::Set(d, uint8_t{16}));
      hn::StoreU(hn::Or(hn::LoadU(d, levels + i), fifth), d, levels + i);
    }
  } else {
    for (int i = 0; i < 32; ++i)
      levels[i] = static_cast<uint8_t>(levels[i] | (((block.high >> i) & 1u) << 4));
  }
}

HWY_INLINE void widen_block(const BlockQ8_0& block, float* out) {
  scale_signed<32>(block.q, f16_to_f32(block.d), out);
}

HWY_INLINE void widen_block(const BlockQ4_0& block, float* out) {
  uint8_t levels[32];
  split_nibbles(block.q, 16, levels);
  scale_centred<32>(levels, 8, f16_to_f32(block.d), out);
}

HWY_INLINE void widen_block(const BlockQ4_1& block, float* out) {
  uint8_t levels[32];
  split_nibbles(block.q, 16, levels);
  scale_with_min(levels, f16_to_f32(block.d), -f16_to_f32(block.m), out);
}

HWY_INLINE void widen_block(const BlockQ5_0& block, float* out) {
  uint8_t levels[32];
  split_nibbles(block.q, 16, levels);
  add_fifth_bits(block, levels);
  scale_centred<32>(levels, 16, f16_to_f32(block.d), out);
}

HWY_INLINE void widen_block(const BlockQ5_1& block, float* out) {
  uint8_t levels[32];
  split_nibbles(block.q, 16, levels);
  add_fifth_bits(block, levels);
  scale_with_min(levels, f16_to_f32(block.d), -f16_to_f32(block.m), out);
}

template <class Block>
HWY_INLINE void scale_sub_block(const Block& block, int s, const uint8_t* levels, float* out) {
  const ScaleAndMin pair = scale_and_min(block.scales, s);
  scale_with_min(levels, f16_to_f32(block.d) * static_cast<float>(pair.scale),
      f16_to_f32(block.dmin) * static_cast<float>(pair.min), out + s * 32);
}

HWY_INLINE void widen_block(const BlockQ4_K& block, float* out) {
  uint8_t levels[2][32];
  for (int s = 0; s < 8; s += 2) {
    split_nibbles(block.q + s * 16, 32, levels[0]);
    scale_sub_block(block, s, levels[0], out);
    scale_sub_block(block, s + 1, levels[1], out);
  }
}

template <int kPair>
HWY_INLINE void widen_q5_k_pair(const BlockQ5_K& block, float* out) {
  uint8_t levels[2][32];
  split_nibbles(block.q + kPair * 32, 32, levels[0]);
  add_high_bits<2 * kPair, 1>(block.high, levels[0]);
  add_high_bits<2 * kPair + 1, 1>(block.high, levels[1]);
  scale_sub_block(block, 2 * kPair, levels[0], out);
  scale_sub_block(block, 2 * kPair + 1, levels[1], out);
}

HWY_INLINE void widen_block(const BlockQ5_K& block, float* out) {
  widen_q5_k_pair<0>(block, out);
  widen_q5_k_pair<1>(block, out);
  widen_q5_k_pair<2>(block, out);
  widen_q5_k_pair<3>(block, out);
}

HWY_INLINE void widen_block(const BlockQ6_K& block, float* out) {
  const float d = f16_to_f32(block.d);
  uint8_t levels[128];
  for (int half = 0; half < 2; ++half) {
    const uint8_t* high = block.high + half * 32;
    split_nibbles(block.low + half * 64, 64, levels);
    add_high_bits<0, 3>(high, levels);
    add_high_bits<2, 3>(high, levels + 32);
    add_high_bits<4, 3>(high, levels + 64);
    add_high_bits<6, 3>(high, levels + 96);
    for (int s = 0; s < 8; ++s)
      scale_centred<16>(
          levels + s * 16, 32, d * static_cast<float>(block.scales[half * 8 + s]), out + half * 128 + s * 16);
  }
}

// Codes 0..7 are 0, 1, 2, 3, 4, 6, 8, 12 halves of the scale; the fourth bit is the sign.
HWY_INLINE void widen_block(const BlockMXFP4& block, float* out) {
  const ByteTag d;
  uint8_t codes[32];
  int8_t levels[32];
  split_nibbles(block.q, 16, codes);
  for (int i = 0; i < 32; i += kByteLanes) {
    const auto code = hn::LoadU(d, codes + i), magnitude = hn::And(code, hn::Set(d, uint8_t{7}));
    const auto above_4 = hn::SaturatedSub(magnitude, hn::Set(d, uint8_t{4}));
    const auto at_7 = hn::IfThenElseZero(hn::Eq(magnitude, hn::Set(d, uint8_t{7})), hn::Set(d, uint8_t{2}));
    const auto level = hn::Add(hn::Add(magnitude, above_4), at_7);
    const auto negative = hn::Eq(hn::And(code, hn::Set(d, uint8_t{8})), hn::Set(d, uint8_t{8}));
    const auto value = hn::IfThenElse(negative, hn::Sub(hn::Zero(d), level), level);
    hn::StoreU(value, d, reinterpret_cast<uint8_t*>(levels) + i);
  }
  const uint32_t half_scale = block.e < 2 ? 0x00200000u << block.e : (block.e - 1u) << 23;  // 2^(e - 128)
  scale_signed<32>(levels, std::bit_cast<float>(half_scale), out);
}

template <class Block>
HWY_INLINE void widen_blocks(const std::byte* from, float* out, int64_t elements) {
  constexpr int64_t kElements = sizeof(Block) > 100 ? 256 : 32;
  const auto* block = reinterpret_cast<const Block*>(from);
  for (int64_t i = 0; i < elements; i += kElements, ++block) widen_block(*block, out + i);
}

HWY_INLINE void widen_f64(const std::byte* from, float* out, int64_t elements) {
  for (int64_t i = 0; i < elements; ++i) {
    double value;
    std::memcpy(&value, from + i * 8, sizeof value);
    out[i] = static_cast<float>(value);
  }
}

// The exponent's bias moves by a multiplication, which is right for subnormals too.
HWY_INLINE void widen_f8_e4m3(const std::byte* from, float* out, int64_t elements) {
  for (int64_t i = 0; i < elements; ++i) {
    const auto bits = static_cast<uint32_t>(from[i]);
    const float magnitude = std::bit_cast<float>((bits & 0x7Fu) << 20) * 0x1p120f;
    const uint32_t finite = std::bit_cast<uint32_t>(magnitude) | ((bits & 0x80u) << 24);
    out[i] = std::bit_cast<float>((bits & 0x7Fu) == 0x7Fu ? 0x7FC00000u : finite);
  }
}

HWY_INLINE void widen_f8_e5m2(const std::byte* from, float* out, int64_t elements) {
  uint16_t halves[64];  // the same format with eight bits fewer
  for (int64_t i = 0; i < elements; i += 64) {
    const int64_t count = HWY_MIN(int64_t{64}, elements - i);
    for (int64_t j = 0; j < count; ++j)
      halves[j] = static_cast<uint16_t>(static_cast<unsigned>(from[i + j]) << 8);
    widen_plain<WidenF16>(reinterpret_cast<const std::byte*>(halves), out + i, count);
  }
}

// Any DType but the integers, which the caller has refused.
inline void widen_row(DType dtype, const std::byte* row, float* out, int64_t elements) {
  switch (dtype) {
    case DType::kF16:
      return widen_plain<WidenF16>(row, out, elements);
    case DType::kBF16:
      return widen_plain<WidenBF16>(row, out, elements);
    case DType::kF64:
      return widen_f64(row, out, elements);
    case DType::kF8E4M3:
      return widen_f8_e4m3(row, out, elements);
    case DType::kF8E5M2:
      return widen_f8_e5m2(row, out, elements);
    case DType::kQ4_0:
      return widen_blocks<BlockQ4_0>(row, out, elements);
    case DType::kQ4_1:
      return widen_blocks<BlockQ4_1>(row, out, elements);
    case DType::kQ5_0:
      return widen_blocks<BlockQ5_0>(row, out, elements);
    case DType::kQ5_1:
      return widen_blocks<BlockQ5_1>(row, out, elements);
    case DType::kQ8_0:
      return widen_blocks<BlockQ8_0>(row, out, elements);
    case DType::kQ4_K:
      return widen_blocks<BlockQ4_K>(row, out, elements);
    case DType::kQ5_K:
      return widen_blocks<BlockQ5_K>(row, out, elements);
    case DType::kQ6_K:
      return widen_blocks<BlockQ6_K>(row, out, elements);
    case DType::kMXFP4:
      return widen_blocks<BlockMXFP4>(row, out, elements);
    default:
      return widen_plain<WidenF32>(row, out, elements);
  }
}

}  // namespace
}  // namespace cheetah::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
