// SPDX-License-Identifier: MIT
// Decode attention over a cache of FP8: rows of E4M3 numbers with their scale behind them (scaled_row.h),
// copied as they lie. The device widens FP8 to F16 in one instruction, so the products are of F16; a key's
// scale goes to its score, a value's to its weight.
//
// Which numbers and tokens a lane takes is chosen so that its four bytes lie in a bank of their own: rows are
// a word longer than a multiple of the banks (64: half of them).
#include <algorithm>

#include "kernels/attention/cuda/hopper_decode.cuh"

namespace cheetah::gpu {
namespace {

using decode::DecodeParams;
using decode::kUnit;
using decode::kWarps;
constexpr auto kF16 = wgmma::Input::kF16;

// Columns 2 c and 2 c + 1 of a tile of scores are tokens c and c + 4 of its eight.
struct Interleaved {
  __device__ static int at(int tile, int column) { return column / 2 + column % 2 * 4 + tile * 8; }
};

template <int kDim>
struct Fp8Accumulator : decode::Softmax<kDim, Interleaved> {
  static constexpr int kRowBytes = kDim + 4;

  __device__ static uint32_t word(const unsigned char* rows, int row, int byte) {
    return *reinterpret_cast<const uint32_t*>(rows + row * kRowBytes + byte);
  }
  __device__ static float scale_of(const unsigned char* rows, int row) {
    return __uint_as_float(word(rows, row, kDim));
  }

  __device__ void add(const uint32_t (&q)[kDim / 16][4], const unsigned char* keys,
      const unsigned char* values, int first_seen, int end_seen, float scale, float soft_cap) {
    const int lane = threadIdx.x % 32, line = lane / 4, quarter = lane % 4;
    float scores[2][4] = {};
#pragma unroll
    for (int t = 0; t < 2; ++t) {
#pragma unroll
      for (int k = 0; k < kDim / 16; ++k) {
        uint32_t low, high;
        widen_fp8(word(keys, Interleaved::at(t, line), quarter * (kDim / 4) + k * 4), low, high);
        ptx::multiply_f16(scores[t], {q[k][0], q[k][1], q[k][2], q[k][3]}, low, high);
      }
#pragma unroll
      for (int e = 0; e < 4; ++e) scores[t][e] *= scale_of(keys, Interleaved::at(t, quarter * 2 + e % 2));
    }
    this->rescale_and_weigh(scores, first_seen, end_seen, scale, soft_cap);
#pragma unroll
    for (int t = 0; t < 2; ++t)
#pragma unroll
      for (int e = 0; e < 4; ++e) scores[t][e] *= scale_of(values, Interleaved::at(t, quarter * 2 + e % 2));
    add_values({pack_pair<kF16>(scores[0][0], scores[0][1]), pack_pair<kF16>(scores[0][2], scores[0][3]),
                   pack_pair<kF16>(scores[1][0], scores[1][1]), pack_pair<kF16>(scores[1][2], scores[1][3])},
        values);
  }

  // Four numbers of four tokens at a time, turned so that pairs are of neighbouring tokens.
  __device__ void add_values(const uint4& weights, const unsigned char* values) {
    const int line = threadIdx.x % 32 / 4, quarter = threadIdx.x % 4;
#pragma unroll
    for (int j = 0; j < kDim / 32; ++j) {
      uint32_t low[4], high[4];
#pragma unroll
      for (int i = 0; i < 4; ++i)
        widen_fp8(word(values, quarter + i * 4, line * (kDim / 8) + j * 4), low[i], high[i]);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const uint32_t(&from)[4] = i < 2 ? low : high;
        const unsigned pick = i % 2 == 0 ? 0x5410 : 0x7632;
        ptx::multiply_f16(this->out[j * 4 + i], weights, __byte_perm(from[0], from[1], pick),
            __byte_perm(from[2], from[3], pick));
      }
    }
  }
};

template <int kHeadDim>
struct Fp8Cache {
  static constexpr int kDim = kHeadDim, kRowBytes = kDim + 4;
  static constexpr int kUnitBytes = kUnit * kRowBytes;
  // Many short sequences: a block that begins or ends reads nothing, and the others fill its time.
  static constexpr int kBlocks = 4;  // per multiprocessor
  static constexpr int kStages = kDim == 64 ? 6 : 3;
  static constexpr int kSmemBytes =
      (kWarps * kStages * 2 * kUnitBytes > kWarps * decode::kGroupRows * kDim * 4
              ? kWarps * kStages * 2 * kUnitBytes
              : kWarps * decode::kGroupRows * kDim * 4) +
      1024;
  using Accumulator = Fp8Accumulator<kDim>;
  struct Source {
    const std::byte* keys;
    const std::byte* values;
  };
  static Source source_of(const PagedKv& kv) { return {kv.keys, kv.values}; }
  __device__ static void copy_rows(const Source& source, const decode::RowsAt& rows,
      const DecodeParams& params, unsigned char* to, uint64_t* barrier) {
    const int count = min(kUnit, params.page_tokens);
    const int64_t from =
        ((static_cast<int64_t>(rows.page) * params.kv_heads + rows.kv_head) * params.page_tokens +
            rows.inside) *
        kRowBytes;
    unsigned char* at = to + rows.row * kRowBytes;
    ptx::copy_bytes(at, source.keys + from, count * kRowBytes, barrier);
    ptx::copy_bytes(at + kUnitBytes, source.values + from, count * kRowBytes, barrier);
  }
  __device__ static int dim_at(int tile, int column) { return column * (kDim / 8) + tile; }

  // As F16, in the order in which keys are read; beyond its range the largest number.
  __device__ static void load_queries(uint32_t (&q)[kDim / 16][4], const uint16_t* base, int group) {
    const int line = threadIdx.x % 32 / 4, quarter = threadIdx.x % 4;
    const auto fit = [](float v) { return fminf(fmaxf(v, -65504.f), 65504.f); };
#pragma unroll
    for (int k = 0; k < kDim / 16; ++k)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = line + (i & 1) * 8, at = quarter * (kDim / 4) + k * 4 + i / 2 * 2;
        const uint32_t raw = row < group ? *reinterpret_cast<const uint32_t*>(base + row * kDim + at) : 0u;
        const float2 pair = unpack_pair<wgmma::Input::kBf16>(raw);
        q[k][i] = pack_pair<kF16>(fit(pair.x), fit(pair.y));
      }
  }
  // What lies behind the end of the context may be anything: codes and scale become nothing.
  __device__ static void clear_rows(unsigned char* values, int first) {
    auto* words = reinterpret_cast<uint32_t*>(values + first * kRowBytes);
    for (int i = threadIdx.x % 32; i < (kUnit - first) * (kRowBytes / 4); i += 32) words[i] = 0;
    __syncwarp();
  }
};

}  // namespace

void decode::launch_fp8_decode(const AttentionArgs<Bf16>& args, const DecodeParams& params, Stream& stream) {
  if (args.kv.key_dim == 64)
    launch_decode<Fp8Cache<64>>(args, params, stream);
  else
    launch_decode<Fp8Cache<128>>(args, params, stream);
}

}  // namespace cheetah::gpu
