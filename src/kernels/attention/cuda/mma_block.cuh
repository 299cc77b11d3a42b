// SPDX-License-Identifier: MIT
#pragma once
// What one block of mma_attention.cuh does with one tile of rows.
#include "gpu/ptx.cuh"
#include "kernels/attention/cuda/hopper_math.cuh"
#include "kernels/attention/cuda/mma.h"
#include "kernels/attention/cuda/mma_shape.h"
#include "kernels/cuda/pairs.cuh"

namespace cheetah::gpu::mma {

struct Params {
  const uint16_t* q;
  int64_t q_stride;
  uint16_t* out;
  int64_t out_stride;
  const SequenceEntry* sequences;
  const int32_t* pages;
  const uint16_t* keys;
  const uint16_t* values;
  int heads, group, kv_heads, key_dim, value_dim, page_tokens, window;
  Share share;
  float scale, soft_cap;
  const float* sinks;
  float* partial;      // [sequences, heads, splits, value_dim]
  float2* statistics;  // [sequences, heads, splits]: the highest score, the sum of exponentials
};

__device__ inline void copy_16_bytes(uint32_t to, const void* from, bool real) {
  asm volatile(
      "cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(real ? 16 : 0)
      : "memory");
}
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ inline void wait_copies() { asm volatile("cp.async.wait_group 0;" ::: "memory"); }

// Where a 16-byte piece of a row of kDim numbers lies: eight rows that are read at once never meet in a bank.
template <int kDim>
__device__ inline uint32_t piece_at(uint32_t base, int row, int piece) {
  return base + row * (kDim * 2) + ((piece ^ (row & 7)) << 4);
}

// The keys a tile of rows sees, and where the tile is among its sequence's.
struct TileRange {
  int rows = 0;            // of the sequence and key head
  int first_row = 0;       // of the tile
  int first_position = 0;  // of the sequence's first query
  int begin = 0, end = 0;  // keys some row of the tile sees
  int first_tile = 0, end_tile = 0;
};

// One block's work. Members are what its warps carry from key tile to key tile.
template <class S>
struct Block {
  static constexpr int kTokenTiles = S::kTokens / S::kColumnWarps / 8;    // of a warp's scores
  static constexpr int kColumns = S::kValueDim / S::kColumnWarps;         // of a warp's output
  static constexpr int kLines = S::kTokens / S::kWarps;                   // cache rows a warp copies
  static constexpr int kChains = S::kRowTiles * kTokenTiles < 4 ? 2 : 1;  // sums of one score side by side
  static_assert(kTokenTiles > 0 && kColumns % 16 == 0 && kLines <= 32 && S::kKeyDim % 64 == 0);

  const Params& params;
  const TileRange& range;
  const int32_t* table;
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  int row0 = warp / S::kColumnWarps * (S::kRowTiles * 16), column_warp = warp % S::kColumnWarps;
  uint32_t queries, stages, weights;
  float* statistics;  // [column warps][rows]
  float out[S::kRowTiles][kColumns / 8][4] = {};
  float top[S::kRowTiles][2], sum[S::kRowTiles][2];

  __device__ Block(const Params& p, const TileRange& r, const int32_t* pages, unsigned char* smem)
      : params(p),
        range(r),
        table(pages),
        queries(ptx::shared_address(smem)),
        stages(queries + S::kQueryBytes),
        weights(stages + 2 * S::kStageBytes),
        statistics(reinterpret_cast<float*>(smem + S::kQueryBytes + 2 * S::kStageBytes + S::kWeightBytes)) {
#pragma unroll
    for (int m = 0; m < S::kRowTiles; ++m)
#pragma unroll
      for (int r2 = 0; r2 < 2; ++r2) {
        top[m][r2] = -INFINITY;
        sum[m][r2] = 0.f;
      }
  }

  __device__ int row_of(int m, int half) const { return row0 + m * 16 + lane / 4 + half * 8; }
  __device__ int position_of(int row) const {
    return range.first_position + min(range.first_row + row, range.rows - 1) / params.group;
  }

  // Numbers behind the key's end are zero up to the next multiple of 32: the products' steps.
  __device__ int key_pieces() const { return (params.key_dim + 31) / 32 * 4; }

  __device__ void copy_queries(const SequenceEntry& sequence, int kv_head) const {
    const int pieces = key_pieces();
    for (int i = threadIdx.x; i < S::kRows * pieces; i += S::kThreads) {
      const int row = i / pieces, piece = i % pieces, at = range.first_row + row;
      const bool real = at < range.rows && piece * 8 < params.key_dim;
      const int64_t token = sequence.query_begin + at / params.group;
      const int head = kv_head * params.group + at % params.group;
      const uint16_t* from =
          params.q + (real ? token * params.q_stride + head * params.key_dim + piece * 8 : int64_t{0});
      copy_16_bytes(piece_at<S::kKeyDim>(queries, row, piece), from, real);
    }
  }

  // The cache row of the key this lane looks up for its warp, or -1 where no row of the tile sees it: what
  // lies there may be anything, and nothing times infinity is not nothing.
  __device__ int64_t line_of(int tile, int kv_head) const {
    const int token = tile * S::kTokens + warp * kLines + lane;
    if (lane >= kLines || token < range.begin || token >= range.end) return -1;
    const int64_t page = table[token / params.page_tokens];
    return (page * params.kv_heads + kv_head) * params.page_tokens + token % params.page_tokens;
  }

  template <int kDim>
  __device__ void copy_lines(const uint16_t* from, int dim, int pieces, int64_t line, uint32_t to) const {
    constexpr int kPieces = kDim / 8;
#pragma unroll
    for (int i = 0; i < kLines * kPieces / 32; ++i) {
      const int at = i * 32 + lane, row = at / kPieces, piece = at % kPieces;
      const int64_t source = __shfl_sync(~0u, line, row);
      if (piece >= pieces) continue;
      const bool real = source >= 0 && piece * 8 < dim;
      copy_16_bytes(
          piece_at<kDim>(to, warp * kLines + row, piece), from + (real ? source * dim + piece * 8 : 0), real);
    }
  }
  __device__ void copy_tile(int64_t line, int stage) const {
    const uint32_t to = stages + stage * S::kStageBytes;
    copy_lines<S::kKeyDim>(params.keys, params.key_dim, key_pieces(), line, to);
    if constexpr (!S::kLatent)
      copy_lines<S::kValueDim>(
          params.values, params.value_dim, params.value_dim / 8, line, to + S::kKeyBytes);
  }

  __device__ void score(uint32_t keys, float (&scores)[S::kRowTiles][kTokenTiles][4]) const {
    float sums[kChains][S::kRowTiles][kTokenTiles][4] = {};
    const int token0 = column_warp * kTokenTiles * 8, steps = key_pieces() / 4;
#pragma unroll 3
    for (int k = 0; k < steps; ++k) {
      uint32_t a[S::kRowTiles][2][4];
#pragma unroll
      for (int m = 0; m < S::kRowTiles; ++m)
#pragma unroll
        for (int half = 0; half < 2; ++half)
          ptx::load_matrices(a[m][half],
              piece_at<S::kKeyDim>(queries, row0 + m * 16 + lane % 16, k * 4 + half * 2 + lane / 16));
#pragma unroll
      for (int n = 0; n < kTokenTiles; ++n) {
        uint32_t b[4];
        ptx::load_matrices(b, piece_at<S::kKeyDim>(keys, token0 + n * 8 + lane % 8, k * 4 + lane / 8));
#pragma unroll
        for (int m = 0; m < S::kRowTiles; ++m) {
          multiply(sums[0][m][n], a[m][0], b[0], b[1]);
          multiply(sums[kChains - 1][m][n], a[m][1], b[2], b[3]);
        }
      }
    }
#pragma unroll
    for (int m = 0; m < S::kRowTiles; ++m)
#pragma unroll
      for (int n = 0; n < kTokenTiles; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          scores[m][n][e] = sums[0][m][n][e] + (kChains == 2 ? sums[kChains - 1][m][n][e] : 0.f);
  }
  __device__ static void multiply(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    ptx::multiply_bf16(d, {a[0], a[1], a[2], a[3]}, b0, b1);
  }

  // Scores in units of log2(e), minus infinity where a row does not see the key.
  __device__ void scale_and_mask(int tile, float (&scores)[S::kRowTiles][kTokenTiles][4]) const {
    const int first = tile * S::kTokens;
    const bool whole = first + S::kTokens <= position_of(0) + 1 &&
                       (params.window <= 0 || first > position_of(S::kRows - 1) - params.window);
    const int token0 = first + column_warp * kTokenTiles * 8 + lane % 4 * 2;
    const float scale = params.scale * hopper::kLog2E;
#pragma unroll
    for (int m = 0; m < S::kRowTiles; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int position = whole ? 0 : position_of(row_of(m, half));
        const int oldest = params.window > 0 ? position - params.window : -1;
#pragma unroll
        for (int n = 0; n < kTokenTiles; ++n)
#pragma unroll
          for (int e = half * 2; e < half * 2 + 2; ++e) {
            float& s = scores[m][n][e];
            s = params.soft_cap > 0.f
                    ? params.soft_cap * tanhf(s * params.scale / params.soft_cap) * hopper::kLog2E
                    : s * scale;
            const int token = token0 + n * 8 + (e & 1);
            if (!whole && (token > position || token <= oldest)) s = -INFINITY;
          }
      }
  }

  __device__ void publish_tops(const float (&scores)[S::kRowTiles][kTokenTiles][4]) const {
#pragma unroll
    for (int m = 0; m < S::kRowTiles; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float highest = -INFINITY;
#pragma unroll
        for (int n = 0; n < kTokenTiles; ++n)
          highest = fmaxf(highest, fmaxf(scores[m][n][half * 2], scores[m][n][half * 2 + 1]));
        highest = hopper::quad_max(highest);
        if (lane % 4 == 0) statistics[column_warp * S::kRows + row_of(m, half)] = highest;
      }
  }

  // Weighs the keys by the tops all warps have published, leaves the weights for them, and shrinks what was
  // summed under lower tops.
  __device__ void weigh(const float (&scores)[S::kRowTiles][kTokenTiles][4]) {
#pragma unroll
    for (int m = 0; m < S::kRowTiles; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = row_of(m, half);
        float highest = top[m][half];
#pragma unroll
        for (int w = 0; w < S::kColumnWarps; ++w) highest = fmaxf(highest, statistics[w * S::kRows + row]);
        const float base = highest == -INFINITY ? 0.f : highest;  // a row that has seen nothing yet
        const float factor = hopper::exp2_fast(top[m][half] - base);
        top[m][half] = highest;
        float total = sum[m][half] * factor;
        const uint32_t to =
            weights + row * S::kWeightStride + (column_warp * kTokenTiles * 8 + lane % 4 * 2) * 2;
#pragma unroll
        for (int n = 0; n < kTokenTiles; ++n) {
          const float low = hopper::exp2_fast(scores[m][n][half * 2] - base);
          const float high = hopper::exp2_fast(scores[m][n][half * 2 + 1] - base);
          total += low + high;
          asm volatile(
              "st.shared.b32 [%0], %1;" ::"r"(to + n * 16), "r"(pack_pair<wgmma::Input::kBf16>(low, high))
              : "memory");
        }
        sum[m][half] = total;
        if (__any_sync(~0u, factor != 1.f)) {
#pragma unroll
          for (int n = 0; n < kColumns / 8; ++n) {
            out[m][n][half * 2] *= factor;
            out[m][n][half * 2 + 1] *= factor;
          }
        }
      }
  }

  __device__ void add_values(uint32_t values) {
    constexpr int kDim = S::kLatent ? S::kKeyDim : S::kValueDim;
    const int piece0 = column_warp * (kColumns / 8);
#pragma unroll
    for (int k = 0; k < S::kTokens / 16; ++k) {
      uint32_t a[S::kRowTiles][4];
#pragma unroll
      for (int m = 0; m < S::kRowTiles; ++m)
        ptx::load_matrices(
            a[m], weights + (row0 + m * 16 + lane % 16) * S::kWeightStride + (k * 2 + lane / 16) * 16);
#pragma unroll
      for (int n = 0; n < kColumns / 16; ++n) {
        uint32_t b[4];
        ptx::load_matrices_transposed(
            b, piece_at<kDim>(values, k * 16 + lane % 16, piece0 + n * 2 + lane / 16));
#pragma unroll
        for (int m = 0; m < S::kRowTiles; ++m) {
          multiply(out[m][n * 2], a[m], b[0], b[1]);
          multiply(out[m][n * 2 + 1], a[m], b[2], b[3]);
        }
      }
    }
  }

  __device__ void run(int kv_head) {
    int64_t line = line_of(range.first_tile, kv_head);
    copy_tile(line, 0);
    commit_copies();
    line = line_of(range.first_tile + 1, kv_head);
    for (int tile = range.first_tile; tile < range.end_tile; ++tile) {
      const int stage = (tile - range.first_tile) % 2;
      wait_copies();
      __syncthreads();  // the tile is here, and the one before it has been used
      if (tile + 1 < range.end_tile) {
        copy_tile(line, stage ^ 1);
        line = line_of(tile + 2, kv_head);
      }
      commit_copies();
      const uint32_t keys = stages + stage * S::kStageBytes;
      float scores[S::kRowTiles][kTokenTiles][4];
      score(keys, scores);
      scale_and_mask(tile, scores);
      publish_tops(scores);
      __syncthreads();
      weigh(scores);
      __syncthreads();
      add_values(S::kLatent ? keys : keys + S::kKeyBytes);
    }
  }

  // The warps' sums of a row, each over its own keys, become the row's.
  __device__ void add_sums() {
    __syncthreads();  // the last tops have been read
#pragma unroll
    for (int m = 0; m < S::kRowTiles; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float own = hopper::quad_sum(sum[m][half]);
        if (lane % 4 == 0) statistics[column_warp * S::kRows + row_of(m, half)] = own;
      }
    __syncthreads();
#pragma unroll
    for (int m = 0; m < S::kRowTiles; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        sum[m][half] = 0.f;
#pragma unroll
        for (int w = 0; w < S::kColumnWarps; ++w) sum[m][half] += statistics[w * S::kRows + row_of(m, half)];
      }
  }

  // Calls store(row of the tile, half's statistics, column, two neighbouring numbers).
  template <class Store>
  __device__ void each_output(const Store& store) const {
#pragma unroll
    for (int m = 0; m < S::kRowTiles; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = range.first_row + row_of(m, half);
        if (row >= range.rows) continue;
        const auto put = store(row, top[m][half], sum[m][half]);
#pragma unroll
        for (int n = 0; n < kColumns / 8; ++n) {
          const int column = column_warp * kColumns + n * 8 + lane % 4 * 2;
          if (column < params.value_dim) put(column, out[m][n][half * 2], out[m][n][half * 2 + 1]);
        }
      }
  }
};

}  // namespace cheetah::gpu::mma
