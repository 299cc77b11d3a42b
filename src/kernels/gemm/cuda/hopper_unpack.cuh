// SPDX-License-Identifier: MIT
#pragma once
// Stored blocks as the tensor cores' operand: of each eight columns of a row, a lane needs the two at lane %
// 4 * 2, widened to BF16. A row's numbers lie in shared memory as stored, kCols of them (a unit) in kPitch
// bytes, whose words modulo 32 let eight rows be read at once. A lane has two rows.
//
// A level of up to eight bits needs no conversion: as the low byte of a BF16 it reads as level * 2^-133,
// subnormal or not. Two at a time, levels meet their scale and offset in one multiply-add. Scales would leave
// BF16's range then, so W comes out kShrink times smaller, a power of two that the sums get back. What a
// block's scale and offset cost is shared by the four lanes that have parts of its row.
#include <cuda_bf16.h>

#include "kernels/cuda/reduce.cuh"
#include "kernels/gemm/cuda/hopper_blocks.cuh"

namespace cheetah::gpu::unpack {

constexpr int kGroup = 64;  // columns that are unpacked at once

// Neighbouring numbers in one register, the first in the low half: [j] at column 8 j + 2 (lane % 4) of a
// group.
struct Pairs {
  uint32_t at[8];
};
struct Fragment {
  Pairs upper, lower;  // the lane's two rows
};
struct LaneRows {
  const uint8_t *upper, *lower;
};

__device__ inline __nv_bfloat162 as_pair(uint32_t bits) {
  return *reinterpret_cast<const __nv_bfloat162*>(&bits);
}
__device__ inline uint32_t bits_of(__nv_bfloat162 pair) { return *reinterpret_cast<const uint32_t*>(&pair); }
__device__ inline uint32_t pack(float low, float high) { return bits_of(__floats2bfloat162_rn(low, high)); }
__device__ inline __nv_bfloat162 both(float value) { return __floats2bfloat162_rn(value, value); }

constexpr float kShrink = 0x1p-40f;
constexpr float kLevelUnit = 0x1p93f;  // kShrink over what a level of one reads as

// Two of four levels, or of four bytes.
template <int kFirst>
__device__ inline uint32_t two_of(uint32_t bytes) {
  return __byte_perm(bytes, 0, 0x4040 | (kFirst + 1) << 8 | kFirst);
}
// Levels less kZero, exact.
template <int kZero>
__device__ inline __nv_bfloat162 less(uint32_t levels) {
  constexpr uint32_t kNegative = 0x8000u | kZero;
  return kZero == 0 ? as_pair(levels) : __hadd2(as_pair(levels), as_pair(kNegative | kNegative << 16));
}
// A line: the scale of levels as they read in the low half, the offset in the high one.
__device__ inline uint32_t on_line(__nv_bfloat162 levels, __nv_bfloat162 line) {
  return bits_of(__hfma2(levels, __low2bfloat162(line), __high2bfloat162(line)));
}
template <int kZero>
__device__ inline void four_on_line(uint32_t levels, __nv_bfloat162 line, uint32_t* to) {
  to[0] = on_line(less<kZero>(two_of<0>(levels)), line);
  to[1] = on_line(less<kZero>(two_of<2>(levels)), line);
}
// Of a scale, where level kZero stands for zero.
template <int kZero>
__device__ inline uint32_t line_of(float scale) {
  const __nv_bfloat162 rounded = both(scale);
  return pack(scale * kLevelUnit, -kZero * kShrink * __low2float(rounded));
}
__device__ inline __nv_bfloat162 for_high_nibbles(
    __nv_bfloat162 line) {  // left where they are, sixteen times as large
  return __hmul2(line, as_pair(0x3F803D80u));
}
template <int kByte>
__device__ inline float raised_level(uint32_t levels) {  // 128 + the level
  return __uint_as_float(__byte_perm(levels, 0x4300u, 0x5044 | kByte << 8));
}

__device__ inline unsigned quad_lane() { return threadIdx.x % 4; }
// What lane `from` of the four has.
__device__ inline __nv_bfloat162 of_quad(uint32_t value, int from) {
  return as_pair(__shfl_sync(kWholeWarp, value, from, 4));
}

// This lane's two bytes of the eight at `at`, each in a half word.
__device__ inline uint32_t lane_pair(const uint8_t* at) {
  return two_of<0>(*reinterpret_cast<const uint16_t*>(at + quad_lane() * 2));
}
// The same and those eight bytes on, side by side.
__device__ inline uint32_t lane_bytes(const uint8_t* at) {
  const unsigned mine = quad_lane() * 2;
  const uint32_t low = *reinterpret_cast<const uint16_t*>(at + mine),
                 high = *reinterpret_cast<const uint16_t*>(at + 8 + mine);
  return __byte_perm(low, high, 0x5410);
}
__device__ inline float half_at(const uint8_t* at) {
  return blocks::half_of(*reinterpret_cast<const uint16_t*>(at));
}

// kCols, kBytes and kPitch of a unit; kShrinks: by kShrink; Head: what is read once a unit; open(rows),
// unpack<group>(rows, head, fragment).
template <DType kDType>
struct Rows;

// The copy engine begins at multiples of 16 bytes: units of other sizes lie up to 15 bytes behind the
// beginning of their row's place, which is that much larger, and nothing wider than two bytes is read of them
// at once.
template <class W>
inline constexpr bool kSkews = W::kBytes % 16 != 0;

// The lines of eight blocks of two rows: lanes 0 and 2 have the upper row's first and last four, 1 and 3 the
// lower's.
struct Lines {
  uint32_t mine[4];

  template <int kBlock>
  __device__ __nv_bfloat162 of(int row) const {
    return of_quad(mine[kBlock % 4], kBlock / 4 * 2 + row);
  }
};
__device__ inline const uint8_t* row_of_mine(const LaneRows& rows) {
  return quad_lane() % 2 ? rows.lower : rows.upper;
}

// Q4_K and Q5_K: eight scales and eight offsets of six bits. An offset is about as large as the largest
// number, so its rounding would move all 32; that of level kZero is not. Levels of odd blocks read kOdd times
// as large.
template <int kZero, int kOdd>
struct KLines : Lines {
  __device__ static KLines read(const LaneRows& rows) {
    const bool is_last = quad_lane() >= 2;
    const uint4 raw = *reinterpret_cast<const uint4*>(row_of_mine(rows));
    const float d = blocks::half_of(raw.x), min = -kShrink * blocks::half_of(raw.x >> 16);
    const uint32_t scales =
        is_last ? (raw.w & 0x0F0F0F0Fu) | ((raw.y >> 2) & 0x30303030u) : raw.y & 0x3F3F3F3Fu;
    const uint32_t mins =
        is_last ? ((raw.w >> 4) & 0x0F0F0F0Fu) | ((raw.z >> 2) & 0x30303030u) : raw.z & 0x3F3F3F3Fu;
    return {{{line<0>(scales, mins, d, min), line<1>(scales, mins, d, min), line<2>(scales, mins, d, min),
        line<3>(scales, mins, d, min)}}};
  }
  template <int kByte>
  __device__ static uint32_t line(uint32_t scales, uint32_t mins, float d, float min) {
    constexpr float kUnit = kLevelUnit / (kByte % 2 ? kOdd : 1);
    const float scale = fmaf(raised_level<kByte>(scales), d, -128.f * d),
                offset = fmaf(raised_level<kByte>(mins), min, -128.f * min);
    return pack(scale * kUnit, fmaf(scale, kZero * kShrink, offset));
  }
};

template <>
struct Rows<DType::kQ4_K> {
  static constexpr int kCols = 256, kBytes = 144, kPitch = 144;
  static constexpr bool kShrinks = true;
  using Head = KLines<8, 16>;
  __device__ static Head open(const LaneRows& rows) { return Head::read(rows); }
  template <int kIndex>
  __device__ static void unpack(const LaneRows& rows, const Head& head, Fragment& to) {
    unpack_row<kIndex>(rows.upper, head.of<2 * kIndex>(0), head.of<2 * kIndex + 1>(0), to.upper.at);
    unpack_row<kIndex>(rows.lower, head.of<2 * kIndex>(1), head.of<2 * kIndex + 1>(1), to.lower.at);
  }
  // A byte is 16 high + low: the high nibble is had by subtracting the low one, where additions of BF16 have
  // a pipe twice as wide as logic.
  template <int kIndex>
  __device__ static void unpack_row(
      const uint8_t* row, __nv_bfloat162 low_line, __nv_bfloat162 high_line, uint32_t* to) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint32_t raw = lane_pair(row + offsetof(BlockQ4_K, q) + kIndex * 32 + i * 8);
      const __nv_bfloat162 low = less<8>(raw & 0x000F000Fu), high = __hsub2(less<8 + 128>(raw), low);
      to[i] = on_line(low, low_line);
      to[4 + i] = on_line(high, high_line);
    }
  }
};

template <>
struct Rows<DType::kQ5_K> {
  static constexpr int kCols = 256, kBytes = 176, kPitch = 176;
  static constexpr bool kShrinks = true;
  using Scales = KLines<16, 1>;
  struct Head {
    Scales lines;
    uint32_t fifth[2][2];  // [row][half]
  };
  __device__ static Head open(const LaneRows& rows) {
    constexpr int kHigh = offsetof(BlockQ5_K, high);
    return {Scales::read(rows), {{lane_bytes(rows.upper + kHigh), lane_bytes(rows.upper + kHigh + 16)},
                                    {lane_bytes(rows.lower + kHigh), lane_bytes(rows.lower + kHigh + 16)}}};
  }
  template <int kIndex>
  __device__ static void unpack(const LaneRows& rows, const Head& head, Fragment& to) {
    unpack_row<kIndex>(rows.upper, head, 0, to.upper.at);
    unpack_row<kIndex>(rows.lower, head, 1, to.lower.at);
  }
  template <int kIndex>
  __device__ static void unpack_row(const uint8_t* row, const Head& head, int which, uint32_t* to) {
    const __nv_bfloat162 low = head.lines.of<2 * kIndex>(which), high = head.lines.of<2 * kIndex + 1>(which);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const uint32_t raw = lane_bytes(row + offsetof(BlockQ5_K, q) + kIndex * 32 + half * 16),
                     fifth = head.fifth[which][half] >> (2 * kIndex);
      four_on_line<16>((raw & 0x0F0F0F0Fu) | ((fifth << 4) & 0x10101010u), low, to + 2 * half);
      four_on_line<16>(((raw >> 4) & 0x0F0F0F0Fu) | ((fifth << 3) & 0x10101010u), high, to + 4 + 2 * half);
    }
  }
};

// Sixteen scales: lanes 0 and 2 have the upper row's first and last eight, 1 and 3 the lower's.
template <>
struct Rows<DType::kQ6_K> {
  static constexpr int kCols = 256, kBytes = 210, kPitch = 240, kZero = 32;
  static constexpr bool kShrinks = true;
  struct Head {
    uint32_t lines[8];
  };
  __device__ static Head open(const LaneRows& rows) {
    const uint8_t* row = row_of_mine(rows);
    const auto* scales =
        reinterpret_cast<const uint16_t*>(row + offsetof(BlockQ6_K, scales) + quad_lane() / 2 * 8);
    const float d = half_at(row + offsetof(BlockQ6_K, d));
    Head head;
#pragma unroll
    for (int i = 0; i < 8; ++i)
      head.lines[i] =
          line_of<kZero>(d * static_cast<float>(static_cast<int8_t>(scales[i / 2] >> (8 * (i % 2)))));
    return head;
  }
  template <int kIndex>
  __device__ static void unpack(const LaneRows& rows, const Head& head, Fragment& to) {
    unpack_row<kIndex>(rows.upper, head, 0, to.upper.at);
    unpack_row<kIndex>(rows.lower, head, 1, to.lower.at);
  }
  // Groups of 64: the low or the high nibbles of 64 bytes, and two bits each of 32.
  template <int kIndex>
  __device__ static void unpack_row(const uint8_t* row, const Head& head, int which, uint32_t* to) {
    constexpr int kHalf = kIndex / 2, kPart = kIndex % 2;
#pragma unroll
    for (int part = 0; part < 2; ++part)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const uint32_t top = lane_bytes(row + offsetof(BlockQ6_K, high) + kHalf * 32 + half * 16) >>
                             (4 * kPart),
                       raw = lane_bytes(row + kHalf * 64 + part * 32 + half * 16) >> (4 * kPart);
        four_on_line<0>((raw & 0x0F0F0F0Fu) | (((top >> (2 * part)) & 0x03030303u) << 4),
            of_quad(head.lines[kPart * 4 + 2 * part + half], kHalf * 2 + which), to + 4 * part + 2 * half);
      }
  }
};

// Types with blocks of 32: two of them a group.
template <class Type, int kBytesOfBlock>
struct PairsOfBlocks {
  using Head = Lines;
  static constexpr int kBlockBytes = kBytesOfBlock;
  template <int kIndex>
  __device__ static void unpack(const LaneRows& rows, const Head& head, Fragment& to) {
    constexpr int kFirst = 2 * kIndex * kBlockBytes, kSecond = kFirst + kBlockBytes;
    Type::unpack_block(rows.upper + kFirst, head.of<2 * kIndex>(0), to.upper.at);
    Type::unpack_block(rows.upper + kSecond, head.of<2 * kIndex + 1>(0), to.upper.at + 4);
    Type::unpack_block(rows.lower + kFirst, head.of<2 * kIndex>(1), to.lower.at);
    Type::unpack_block(rows.lower + kSecond, head.of<2 * kIndex + 1>(1), to.lower.at + 4);
  }
};

template <>
struct Rows<DType::kQ4_0> : PairsOfBlocks<Rows<DType::kQ4_0>, 18> {
  static constexpr int kCols = 256, kBytes = 144, kPitch = 144, kZero = 8;
  static constexpr bool kShrinks = true;
  __device__ static Head open(const LaneRows& rows) {
    const uint8_t* blocks = row_of_mine(rows) + quad_lane() / 2 * (4 * kBlockBytes);
    Head head;
#pragma unroll
    for (int i = 0; i < 4; ++i) head.mine[i] = line_of<kZero>(half_at(blocks + i * kBlockBytes));
    return head;
  }
  __device__ static void unpack_block(const uint8_t* block, __nv_bfloat162 line, uint32_t* to) {
    const __nv_bfloat162 high = for_high_nibbles(line);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const uint32_t raw = lane_pair(block + 2 + i * 8);
      to[i] = on_line(as_pair(raw & 0x000F000Fu), line);
      to[2 + i] = on_line(as_pair(raw & 0x00F000F0u), high);
    }
  }
};

// Eight bits are one more than BF16 has below 0x43: as the third byte of a float they read as 128 + level /
// 256, and one multiply-add gives the number, rounded to BF16 once.
template <>
struct Rows<DType::kQ8_0> {
  static constexpr int kCols = 128, kBytes = 136, kPitch = 176;
  static constexpr bool kShrinks = false;
  struct Head {};
  __device__ static Head open(const LaneRows&) { return {}; }
  template <int kIndex>
  __device__ static void unpack(const LaneRows& rows, Head, Fragment& to) {
    unpack_row<kIndex>(rows.upper, to.upper.at);
    unpack_row<kIndex>(rows.lower, to.lower.at);
  }
  template <int kByte>
  __device__ static float fine_level(uint32_t levels) {
    return __uint_as_float(__byte_perm(levels, 0x4300u, 0x5404 | kByte << 4));
  }
  template <int kIndex>
  __device__ static void unpack_row(const uint8_t* row, uint32_t* to) {
#pragma unroll
    for (int b = 0; b < 2; ++b) {
      const uint8_t* block = row + (2 * kIndex + b) * 34;
      const float d = half_at(block), scale = 256.f * d, offset = -32896.f * d;  // level 128 is zero
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const uint32_t raw = lane_bytes(block + 2 + half * 16) ^ 0x80808080u;
        uint32_t* at = to + 4 * b + 2 * half;
        at[0] = pack(fmaf(fine_level<0>(raw), scale, offset), fmaf(fine_level<1>(raw), scale, offset));
        at[1] = pack(fmaf(fine_level<2>(raw), scale, offset), fmaf(fine_level<3>(raw), scale, offset));
      }
    }
  }
};

// Four bits are a float of their own: its BF16 is looked up bytewise and multiplied with a power of two,
// which is exact.
template <>
struct Rows<DType::kMXFP4> : PairsOfBlocks<Rows<DType::kMXFP4>, 17> {  // the head: the scale in both halves
  static constexpr int kCols = 256, kBytes = 136, kPitch = 176;
  static constexpr bool kShrinks = false;
  __device__ static Head open(const LaneRows& rows) {
    const uint8_t* blocks = row_of_mine(rows) + quad_lane() / 2 * (4 * kBlockBytes);
    Head head;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint32_t e = blocks[i * kBlockBytes], one = e == 0 ? 0x40u : e << 7;  // 2^-127 is subnormal
      head.mine[i] = one | one << 16;
    }
    return head;
  }
  // Two bytes: columns c and c + 1 in the low nibbles, c + 16 and c + 17 in the high ones.
  __device__ static void look_up(uint32_t codes, __nv_bfloat162 scale, uint32_t& first, uint32_t& second) {
    const uint32_t magnitudes = codes & 0x7777u, signs = __byte_perm(codes, 0, 0x1404);
    const uint32_t high = __byte_perm(0x3F3F3F00u, 0x40404040u, magnitudes),
                   low = __byte_perm(0xC0800000u, 0xC0804000u, magnitudes);
    const uint32_t even = __byte_perm(low, high, 0x6240) | (signs << 4 & 0x80008000u),
                   odd = __byte_perm(low, high, 0x7351) | (signs & 0x80008000u);
    first = bits_of(__hmul2(as_pair(even), scale));
    second = bits_of(__hmul2(as_pair(odd), scale));
  }
  __device__ static void unpack_block(const uint8_t* block, __nv_bfloat162 scale, uint32_t* to) {
    const uint8_t* mine = block + 1 + quad_lane() * 2;
    look_up(mine[0] | static_cast<uint32_t>(mine[1]) << 8, scale, to[0], to[2]);
    look_up(mine[8] | static_cast<uint32_t>(mine[9]) << 8, scale, to[1], to[3]);
  }
};

}  // namespace cheetah::gpu::unpack
