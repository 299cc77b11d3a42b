// SPDX-License-Identifier: MIT
// Decode attention over a cache of BF16.
#include "kernels/attention/cuda/hopper_decode.cuh"

namespace cheetah::gpu {
namespace {

using decode::DecodeParams;
using decode::kUnit;
using decode::kWarps;

struct InOrder {
  __device__ static int at(int tile, int column) { return tile * 8 + column; }
};

template <int kDim>
struct Bf16Accumulator : decode::Softmax<kDim, InOrder> {
  __device__ static void multiply(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    ptx::multiply_bf16(d, {a[0], a[1], a[2], a[3]}, b0, b1);
  }
  // Where a 16-byte piece of a row lies in a swizzled box.
  __device__ static uint32_t piece(uint32_t base, int row, int chunk) {
    return base + (chunk / 8) * (kUnit * 128) + row * 128 + (((chunk % 8) ^ (row & 7)) << 4);
  }

  __device__ void add(const uint32_t (&q)[kDim / 16][4], const unsigned char* keys,
      const unsigned char* values, int first_seen, int end_seen, float scale, float soft_cap) {
    const int lane = threadIdx.x % 32;
    const uint32_t key_rows = ptx::shared_address(keys), value_rows = ptx::shared_address(values);
    float scores[2][4] = {};
#pragma unroll
    for (int k = 0; k < kDim / 16; ++k) {
      uint32_t b[4];
      ptx::load_matrices(b, piece(key_rows, (lane & 7) + (lane & 16) / 2, k * 2 + (lane / 8 & 1)));
      multiply(scores[0], q[k], b[0], b[1]);
      multiply(scores[1], q[k], b[2], b[3]);
    }
    this->rescale_and_weigh(scores, first_seen, end_seen, scale, soft_cap);
    const uint32_t a[4] = {pack_pair<wgmma::Input::kBf16>(scores[0][0], scores[0][1]),
        pack_pair<wgmma::Input::kBf16>(scores[0][2], scores[0][3]),
        pack_pair<wgmma::Input::kBf16>(scores[1][0], scores[1][1]),
        pack_pair<wgmma::Input::kBf16>(scores[1][2], scores[1][3])};
#pragma unroll
    for (int t = 0; t < kDim / 16; ++t) {
      uint32_t b[4];
      ptx::load_matrices_transposed(b, piece(value_rows, (lane & 7) + (lane & 8), t * 2 + lane / 16));
      multiply(this->out[t * 2], a, b[0], b[1]);
      multiply(this->out[t * 2 + 1], a, b[2], b[3]);
    }
  }
};

// Rows in boxes of 64 numbers, swizzled by the copy engine.
template <int kHeadDim>
struct Bf16Cache {
  static constexpr int kDim = kHeadDim, kHalves = kDim / 64;
  static constexpr int kUnitBytes = kUnit * kDim * 2;  // of K or of V
  static constexpr int kBlocks = 2;                    // per multiprocessor
  static constexpr int kStages = kDim == 64 ? 6 : 3;
  static constexpr int kSmemBytes = kWarps * kStages * 2 * kUnitBytes + 1024;
  using Accumulator = Bf16Accumulator<kDim>;
  struct Source {
    TensorMap keys, values;
  };
  static Source source_of(const PagedKv& kv) {
    return {hopper::cache_map(kv, kv.keys, kUnit), hopper::cache_map(kv, kv.values, kUnit)};
  }
  __device__ static void copy_rows(const Source& source, const decode::RowsAt& rows, const DecodeParams&,
      unsigned char* to, uint64_t* barrier) {
    for (int h = 0; h < kHalves; ++h) {
      unsigned char* at = to + h * (kUnit * 128) + rows.row * 128;
      ptx::copy_box_4d(
          at, &source.keys, h * 64, rows.inside, rows.kv_head, rows.page, barrier, ptx::kEvictFirst);
      ptx::copy_box_4d(at + kUnitBytes, &source.values, h * 64, rows.inside, rows.kv_head, rows.page, barrier,
          ptx::kEvictFirst);
    }
  }
  // Which number of a head a column of a tile of the output is.
  __device__ static int dim_at(int tile, int column) { return tile * 8 + column; }

  __device__ static void load_queries(uint32_t (&q)[kDim / 16][4], const uint16_t* base, int group) {
    const int row = threadIdx.x % 32 / 4, column = threadIdx.x % 4 * 2;
#pragma unroll
    for (int k = 0; k < kDim / 16; ++k)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int r = row + (i & 1) * 8;
        q[k][i] = r < group
                      ? *reinterpret_cast<const uint32_t*>(base + r * kDim + k * 16 + (i / 2) * 8 + column)
                      : 0u;
      }
  }

  // Values behind the end of the context may be anything, and nothing times infinity is not nothing.
  __device__ static void clear_rows(unsigned char* values, int first) {
    constexpr int kPieces = kHalves * 8;  // of 16 bytes per row
    for (int i = threadIdx.x % 32; i < (kUnit - first) * kPieces; i += 32) {
      const int row = first + i / kPieces, piece = i % kPieces;
      *reinterpret_cast<uint4*>(values + (piece / 8) * (kUnit * 128) + row * 128 + piece % 8 * 16) = uint4{};
    }
    __syncwarp();
  }
};

}  // namespace

void hopper_decode_attention(const AttentionArgs<Bf16>& args, int splits, Stream& stream) {
  const int64_t shares = args.batch.num_sequences * args.heads * splits;
  const DecodeParams params{.q = reinterpret_cast<const uint16_t*>(args.q),
      .q_stride = args.q_stride,
      .out = reinterpret_cast<uint16_t*>(args.out),
      .out_stride = args.out_stride,
      .sequences = args.batch.sequences,
      .pages = args.batch.pages,
      .heads = static_cast<int>(args.heads),
      .group = static_cast<int>(args.heads / args.kv.kv_heads),
      .kv_heads = static_cast<int>(args.kv.kv_heads),
      .splits = splits,
      .page_tokens = static_cast<int>(args.kv.page_tokens),
      .window = static_cast<int>(args.window),
      .scale = args.scale,
      .soft_cap = args.soft_cap,
      .sinks = args.sinks,
      .partial = args.scratch.parts,
      .statistics = args.scratch.parts + shares * args.kv.value_dim,
      .counters = args.scratch.counters};
  if (args.kv.dtype == DType::kF8E4M3)
    decode::launch_fp8_decode(args, params, stream);
  else if (args.kv.key_dim == 64)
    decode::launch_decode<Bf16Cache<64>>(args, params, stream);
  else
    decode::launch_decode<Bf16Cache<128>>(args, params, stream);
}

}  // namespace cheetah::gpu
