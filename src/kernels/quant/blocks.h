// SPDX-License-Identifier: MIT
#pragma once
// The block layouts of the GGUF number formats. Packed to one byte: a row may start anywhere in a mapped
// file.
#include <cstdint>

namespace cheetah {

#pragma pack(push, 1)

struct BlockQ4_0 {  // x = d * (q - 8)
  uint16_t d;       // f16
  uint8_t q[16];    // low nibbles: elements 0..15, high nibbles: 16..31
};

struct BlockQ4_1 {  // x = d * q + m
  uint16_t d, m;    // f16
  uint8_t q[16];
};

struct BlockQ5_0 {  // x = d * (q - 16)
  uint16_t d;       // f16
  uint32_t high;    // bit i: the fifth bit of element i
  uint8_t q[16];
};

struct BlockQ5_1 {  // x = d * q + m
  uint16_t d, m;    // f16
  uint32_t high;
  uint8_t q[16];
};

struct BlockQ8_0 {  // x = d * q
  uint16_t d;       // f16
  int8_t q[32];
};

// Eight sub-blocks of 32 with 6-bit scales and minima: x = d * scale * q - dmin * min.
struct BlockQ4_K {
  uint16_t d, dmin;    // f16
  uint8_t scales[12];  // see scale_and_min()
  uint8_t q[128];      // 32 bytes hold sub-blocks 2i (low nibbles) and 2i + 1 (high nibbles)
};

struct BlockQ5_K {
  uint16_t d, dmin;
  uint8_t scales[12];
  uint8_t high[32];  // bit s of byte i: the fifth bit of element i of sub-block s
  uint8_t q[128];
};

// Sixteen sub-blocks of 16: x = d * scale * (q - 32).
struct BlockQ6_K {
  uint8_t low[128];  // the low four bits
  uint8_t high[64];  // the two bits above
  int8_t scales[16];
  uint16_t d;  // f16, at the end here
};

struct BlockMXFP4 {  // x = 2^(e - 127) * fp4(q), OCP microscaling
  uint8_t e;
  uint8_t q[16];
};

#pragma pack(pop)

static_assert(sizeof(BlockQ4_0) == 18 && sizeof(BlockQ4_1) == 20 && sizeof(BlockQ5_0) == 22);
static_assert(sizeof(BlockQ5_1) == 24 && sizeof(BlockQ8_0) == 34 && sizeof(BlockMXFP4) == 17);
static_assert(sizeof(BlockQ4_K) == 144 && sizeof(BlockQ5_K) == 176 && sizeof(BlockQ6_K) == 210);

struct ScaleAndMin {
  int scale;
  int min;
};

// Sub-block s of the 12 bytes: the first four pairs lie in the low six bits of bytes s and s + 4; the last
// four are split between the nibbles of byte s + 4 and the top two bits of bytes s - 4 and s.
inline ScaleAndMin scale_and_min(const uint8_t* scales, int s) {
  if (s < 4) return {scales[s] & 63, scales[s + 4] & 63};
  return {(scales[s + 4] & 15) | ((scales[s - 4] >> 6) << 4), (scales[s + 4] >> 4) | ((scales[s] >> 6) << 4)};
}

}  // namespace cheetah
