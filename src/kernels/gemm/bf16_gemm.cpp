// SPDX-License-Identifier: MIT
// One task of the BF16 path: x rounded to BF16, products of pairs added in F32 by one instruction.
// flops 2*m*n*k   bytes as gemm_cost()   bound: memory for a few rows of x, the dot-product unit beyond
// why: 32 multiply-adds an instruction against F32's 16, and W needs no widening. Lane l of an output's one
// accumulator takes the pairs of k with (k / 2) mod 16 = l, in order, and the lanes are added in a fixed
// tree: a row's bits are the same at every m.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm/bf16_gemm.cpp"
#include <algorithm>

#include "hwy/foreach_target.h"  // compiles this file once per target
#include "hwy/highway.h"
#include "kernels/gemm/tile.h"

HWY_BEFORE_NAMESPACE();
namespace cheetah::HWY_NAMESPACE {
namespace {

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3_DL

constexpr int64_t kWide = 32;             // BF16 numbers in a vector
constexpr int kPanelRows = 4;             // rows of W: their sums leave the tree as one vector of four
constexpr int kMaxTileM = 6;              // 6 x 4 sums, 4 vectors of W and one of x fit 32 registers
constexpr int64_t kBlockK = 2048;         // 128 rows of x take 512 KiB of a core's L2
constexpr int64_t kPrefetchBytes = 8192;  // from the weights being multiplied to those being fetched
constexpr int64_t kFewRows = 64;          // of x: W is read as it lies

thread_local Scratch rounded_x;

// Highway 1.0.3 has no target with this extension, so the compiler would refuse the intrinsics.
HWY_INLINE __m512 dot_2(__m512 sum, __m512i x, __m512i w) {
  asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(x), "v"(w));
  return sum;
}
HWY_INLINE __m256i round_to_bf16(__m512 x) {
  __m256i rounded;
  asm("vcvtneps2bf16 %1, %0" : "=v"(rounded) : "v"(x));
  return rounded;
}

int64_t whole_vectors(int64_t k) { return (k + kWide - 1) / kWide * kWide; }

// Columns [k_begin, k_begin + k) of x, rows `stride` apart, zeros up to whole vectors.
struct Block {
  int64_t k_begin = 0;
  int64_t k = 0;
  int64_t stride = 0;
  const uint16_t* x = nullptr;
};

void round_row(const float* x, int64_t k, uint16_t* to) {
  int64_t i = 0;
  const auto store = [&](__m512 numbers) HWY_ATTR {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i), round_to_bf16(numbers));
  };
  for (; i + 16 <= k; i += 16) store(_mm512_loadu_ps(x + i));
  for (; i < whole_vectors(k); i += 16) {
    const int64_t left = HWY_MAX(int64_t{0}, k - i);
    store(_mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << left) - 1), x + i));
  }
}

// All of x, block after block of k.
uint16_t* round_x(const TileTask& task) {
  uint16_t* const rounded = rounded_x.get<uint16_t>(task.m * whole_vectors(task.w.cols));
  uint16_t* to = rounded;
  for (int64_t k = 0; k < task.w.cols; k += kBlockK) {
    const int64_t width = HWY_MIN(kBlockK, task.w.cols - k);
    for (int64_t i = 0; i < task.m; ++i, to += whole_vectors(width))
      round_row(task.x + i * task.x_stride + k, width, to);
  }
  return rounded;
}

// Four rows of W over one block of k, and the columns of y they make.
struct Panel {
  const std::byte* rows[kPanelRows];  // those past the end repeat the last
  int64_t num_vectors;                // whole ones
  __mmask32 tail;                     // of the vector after them; 0: none
  const std::byte* ahead;             // to be fetched meanwhile, in address order; or none
  int64_t row;
  __mmask8 columns;
  bool first, last;  // of the blocks of k
};

// The sums of four vectors' lanes. Halves first, then a 4 x 4 transposition that adds on its way.
HWY_INLINE __m128 sum_lanes(__m512 a, __m512 b, __m512 c, __m512 d) {
  const auto fold = [](__m512 v) HWY_ATTR {
    const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    return _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
  };
  const __m128 qa = fold(a), qb = fold(b), qc = fold(c), qd = fold(d);
  const __m128 ab = _mm_add_ps(_mm_unpacklo_ps(qa, qb), _mm_unpackhi_ps(qa, qb));
  const __m128 cd = _mm_add_ps(_mm_unpacklo_ps(qc, qd), _mm_unpackhi_ps(qc, qd));
  return _mm_add_ps(_mm_movelh_ps(ab, cd), _mm_movehl_ps(cd, ab));
}

template <int kM>
HWY_NOINLINE void multiply_tile(
    const TileTask& task, const Block& block, const Panel& panel, int64_t first_m) {
  __m512 sum[kM][kPanelRows];
#pragma GCC unroll 8
  for (int i = 0; i < kM; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < kPanelRows; ++j) sum[i][j] = _mm512_setzero_ps();
  const uint16_t* x = block.x + first_m * block.stride;
  const std::byte* w[kPanelRows] = {panel.rows[0], panel.rows[1], panel.rows[2], panel.rows[3]};
  const auto step = [&](int64_t at, __mmask32 mask) HWY_ATTR __attribute__((always_inline)) {
    __m512i weights[kPanelRows];
#pragma GCC unroll 8
    for (int j = 0; j < kPanelRows; ++j)
      weights[j] = mask == ~__mmask32{0} ? _mm512_loadu_si512(w[j] + 2 * at)
                                         : _mm512_maskz_loadu_epi16(mask, w[j] + 2 * at);
#pragma GCC unroll 8
    for (int i = 0; i < kM; ++i) {
      const __m512i value = _mm512_loadu_si512(x + i * block.stride + at);
#pragma GCC unroll 8
      for (int j = 0; j < kPanelRows; ++j) sum[i][j] = dot_2(sum[i][j], value, weights[j]);
    }
  };
  const int64_t end = panel.num_vectors * kWide;
  if (panel.ahead && first_m == 0) {
    const std::byte* ahead = panel.ahead;
    for (int64_t at = 0; at < end; at += kWide, ahead += kPanelRows * 64) {
#pragma GCC unroll 8
      for (int j = 0; j < kPanelRows; ++j) __builtin_prefetch(ahead + j * 64, 0, 2);
      step(at, ~__mmask32{0});
    }
  } else {
    for (int64_t at = 0; at < end; at += kWide) step(at, ~__mmask32{0});
  }
  if (panel.tail) step(end, panel.tail);
  float* y = task.y + first_m * task.y_stride + panel.row;
#pragma GCC unroll 8
  for (int i = 0; i < kM; ++i, y += task.y_stride) {
    __m128 total = sum_lanes(sum[i][0], sum[i][1], sum[i][2], sum[i][3]);
    if (!panel.first) total = _mm_add_ps(total, _mm_maskz_loadu_ps(panel.columns, y));
    if (panel.last && task.bias)
      total = _mm_add_ps(total, _mm_maskz_loadu_ps(panel.columns, task.bias + panel.row));
    _mm_mask_storeu_ps(y, panel.columns, total);
  }
}

using TileFunction = void (*)(const TileTask&, const Block&, const Panel&, int64_t);
constexpr TileFunction kTiles[kMaxTileM] = {multiply_tile<1>, multiply_tile<2>, multiply_tile<3>,
    multiply_tile<4>, multiply_tile<5>, multiply_tile<6>};

Panel panel_at(const TileTask& task, const Block& block, int64_t row) {
  const int64_t bytes = 2 * task.w.cols;
  const std::byte* ahead = task.w.data + row * bytes + HWY_MAX(kPanelRows * bytes, kPrefetchBytes) +
                           kPanelRows * 2 * block.k_begin;
  Panel panel{.rows = {},
      .num_vectors = block.k / kWide,
      .tail = static_cast<__mmask32>((uint64_t{1} << (block.k % kWide)) - 1),
      .ahead = task.m <= kFewRows ? ahead : nullptr,
      .row = row,
      .columns = static_cast<__mmask8>((1u << HWY_MIN(int64_t{kPanelRows}, task.row_end - row)) - 1),
      .first = block.k_begin == 0,
      .last = block.k_begin + block.k == task.w.cols};
  for (int j = 0; j < kPanelRows; ++j)
    panel.rows[j] = task.w.data + HWY_MIN(row + j, task.row_end - 1) * bytes + 2 * block.k_begin;
  return panel;
}

void multiply_panel(const TileTask& task, const Block& block, int64_t row) {
  const Panel panel = panel_at(task, block, row);
  const int64_t num_tiles = (task.m + kMaxTileM - 1) / kMaxTileM,
                tile_m = (task.m + num_tiles - 1) / num_tiles;
  for (int64_t i = 0; i < task.m; i += tile_m) kTiles[HWY_MIN(tile_m, task.m - i) - 1](task, block, panel, i);
}

// Few rows of x: W is read as it lies. Many: one block of k at a time, so that x's part of it stays in L2.
void bf16_tile(const TileTask& task) {
  const uint16_t* x = round_x(task);
  const auto block_at = [&](int64_t k_begin) {
    const int64_t k = HWY_MIN(kBlockK, task.w.cols - k_begin);
    return Block{.k_begin = k_begin, .k = k, .stride = whole_vectors(k), .x = x + task.m * k_begin};
  };
  if (task.m <= kFewRows) {
    for (int64_t row = task.row_begin; row < task.row_end; row += kPanelRows)
      for (int64_t k = 0; k < task.w.cols; k += kBlockK) multiply_panel(task, block_at(k), row);
    return;
  }
  for (int64_t k = 0; k < task.w.cols; k += kBlockK)
    for (int64_t row = task.row_begin; row < task.row_end; row += kPanelRows)
      multiply_panel(task, block_at(k), row);
}

bool bf16_fits(const WeightMatrix& w) {
  static const bool has_bf16 = __builtin_cpu_supports("avx512bf16");
  return has_bf16 && w.dtype == DType::kBF16 && w.cols > 0;
}

#else  // no BF16 dot products: the F32 path serves

void bf16_tile(const TileTask&) {}
bool bf16_fits(const WeightMatrix&) { return false; }

#endif

}  // namespace
}  // namespace cheetah::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cheetah {
HWY_EXPORT(bf16_tile);
HWY_EXPORT(bf16_fits);

bool fits_bf16_tile(const WeightMatrix& w) { return HWY_DYNAMIC_DISPATCH(bf16_fits)(w); }
void run_bf16_tile(const TileTask& task) { HWY_DYNAMIC_DISPATCH(bf16_tile)(task); }
}  // namespace cheetah
#endif
