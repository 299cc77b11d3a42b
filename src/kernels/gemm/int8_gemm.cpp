// SPDX-License-Identifier: MIT
// One task of the integer path: x in 8 bits a 32-column block, W's levels as unsigned bytes, dot products of
// both exact in 32 bits; each block's sum is scaled and added to the output in F32, block after block.
// flops 2*m*n*k   bytes as gemm_cost()   bound: memory for a few rows of x, the dot-product unit beyond
// why: 64 multiply-adds an instruction against F32's 16. The order of additions is k's own, so it needs no
// care to be the same at every m.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm/int8_gemm.cpp"
#include "hwy/foreach_target.h"  // compiles this file once per target
#include "kernels/gemm/int8_pack-inl.h"
#include "kernels/gemm/tile.h"

HWY_BEFORE_NAMESPACE();
namespace cheetah::HWY_NAMESPACE {
namespace {

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3_DL

constexpr int kGroups = 2;                        // groups of 16 rows in a panel
constexpr int kPanelRows = kGroups * kGroupRows;  // 32
constexpr int64_t kBlockK = 512;                  // columns of a panel: 16 KiB of levels, half of L1
constexpr int64_t kPanelBlocks = kBlockK / 32;
constexpr int kMaxTileM = 6;  // 6 x 2 sums and as many totals fit 32 registers

struct Panel {
  alignas(64) uint8_t levels[kPanelBlocks * kGroups * kGroupBytes];
  alignas(64) float scales[kPanelBlocks * kPanelRows];
  alignas(64) float mins[kPanelBlocks * kPanelRows];
};

// A panel of packed weights and the rectangle of y it adds to.
struct PanelWork {
  const Panel* panel;
  int64_t first_block;  // of k, in blocks of 32
  int64_t num_blocks;
  int offset;   // levels count from here (types without a minimum)
  int64_t row;  // first row of W
  __mmask16 masks[kGroups];
  bool first, last;  // of the blocks of k
};

// sum + 16 dot products of four unsigned with four signed bytes. Highway 1.0.3 names another extension in
// this target's options than the one it checks for at run time, so the compiler would refuse the intrinsic.
HWY_INLINE __m512i dot_4(__m512i sum, __m512i levels, __m512i x) {
  asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(levels), "v"(x));
  return sum;
}

int offset_of(DType dtype) { return dtype == DType::kQ8_0 ? 128 : dtype == DType::kQ4_0 ? 8 : 0; }

thread_local Scratch last_rows;

// The group of rows from `row` on. One that W does not fill is copied, its last row repeated.
RowGroup group_at(const TileTask& task, int64_t row, int64_t k_begin, int64_t k) {
  const int64_t bytes = row_bytes(task.w.dtype, task.w.cols), skip = row_bytes(task.w.dtype, k_begin);
  const auto* data = reinterpret_cast<const uint8_t*>(task.w.data) + skip;
  if (row + kGroupRows <= task.w.rows) return {data + row * bytes, bytes};
  const int64_t used = row_bytes(task.w.dtype, k);
  auto* copy = last_rows.get<uint8_t>(kGroupRows * used);
  for (int64_t r = 0; r < kGroupRows; ++r)
    std::memcpy(copy + r * used, data + HWY_MIN(row + r, task.w.rows - 1) * bytes, static_cast<size_t>(used));
  return {copy, used};
}

// So few rows of x that memory sets the pace.
bool few(const TileTask& task) { return task.m <= 2 * kMaxTileM; }

// Where the same group of the next panel lies, less what earlier blocks of k have fetched of it.
const uint8_t* next_panel(const TileTask& task, int64_t row, int64_t k_begin) {
  const int64_t bytes = row_bytes(task.w.dtype, task.w.cols);
  return reinterpret_cast<const uint8_t*>(task.w.data) + (row + kPanelRows) * bytes +
         kGroupRows * row_bytes(task.w.dtype, k_begin);
}

void pack_panel(const TileTask& task, int64_t row, int64_t k_begin, int64_t k, Panel& panel) {
  const int64_t blocks = k / traits_of(task.w.dtype).block_elements;
  for (int g = 0; g < kGroups; ++g) {
    const RowGroup rows = group_at(task, row + g * kGroupRows, k_begin, k);
    const PackedBlock to{
        panel.levels + g * kGroupBytes, panel.scales + g * kGroupRows, panel.mins + g * kGroupRows};
    const uint8_t* ahead = few(task) ? next_panel(task, row + g * kGroupRows, k_begin) : nullptr;
    if (task.w.dtype == DType::kQ8_0)
      pack_group<BlockQ8_0>(rows, blocks, to, kGroups, ahead);
    else if (task.w.dtype == DType::kQ4_0)
      pack_group<BlockQ4_0>(rows, blocks, to, kGroups, ahead);
    else
      pack_group<BlockQ4_K>(rows, blocks, to, kGroups, ahead);
  }
}

template <int kM, bool kHasMin>
HWY_NOINLINE void multiply_tile(const TileTask& task, const PanelWork& work, int64_t first_m) {
  __m512 total[kM][kGroups];
  const int8_t* levels[kM];
  const QuantizedBlock* blocks[kM];
  for (int i = 0; i < kM; ++i) {
    levels[i] = task.quantized.levels + (first_m + i) * task.w.cols + work.first_block * 32;
    blocks[i] = task.quantized.blocks + (first_m + i) * (task.w.cols / 32) + work.first_block;
    const float* y = task.y + (first_m + i) * task.y_stride + work.row;
    for (int g = 0; g < kGroups; ++g)
      total[i][g] =
          work.first ? _mm512_setzero_ps() : _mm512_maskz_loadu_ps(work.masks[g], y + g * kGroupRows);
  }
  const uint8_t* w = work.panel->levels;
  for (int64_t b = 0; b < work.num_blocks; ++b) {
    __m512i sum[kM][kGroups];
    for (int i = 0; i < kM; ++i)
      for (int g = 0; g < kGroups; ++g)
        sum[i][g] = kHasMin ? _mm512_setzero_si512() : _mm512_set1_epi32(-work.offset * blocks[i][b].sum);
    for (int q = 0; q < 8; ++q) {
      const __m512i w0 = _mm512_load_si512(w + q * 64), w1 = _mm512_load_si512(w + kGroupBytes + q * 64);
      for (int i = 0; i < kM; ++i) {
        int32_t four;
        std::memcpy(&four, levels[i] + b * 32 + q * 4, sizeof four);
        const __m512i x = _mm512_set1_epi32(four);
        sum[i][0] = dot_4(sum[i][0], w0, x);
        sum[i][1] = dot_4(sum[i][1], w1, x);
      }
    }
    for (int g = 0; g < kGroups; ++g) {
      const __m512 scales = _mm512_load_ps(work.panel->scales + b * kPanelRows + g * kGroupRows);
      const __m512 mins =
          kHasMin ? _mm512_load_ps(work.panel->mins + b * kPanelRows + g * kGroupRows) : scales;
      for (int i = 0; i < kM; ++i) {
        const float scale = blocks[i][b].scale;
        total[i][g] = _mm512_fmadd_ps(
            _mm512_cvtepi32_ps(sum[i][g]), _mm512_mul_ps(scales, _mm512_set1_ps(scale)), total[i][g]);
        if (kHasMin)
          total[i][g] = _mm512_fnmadd_ps(
              mins, _mm512_set1_ps(scale * static_cast<float>(blocks[i][b].sum)), total[i][g]);
      }
    }
    w += kGroups * kGroupBytes;
  }
  for (int g = 0; g < kGroups; ++g) {
    const __m512 bias = work.last && task.bias
                            ? _mm512_maskz_loadu_ps(work.masks[g], task.bias + work.row + g * kGroupRows)
                            : _mm512_setzero_ps();
    for (int i = 0; i < kM; ++i)
      _mm512_mask_storeu_ps(task.y + (first_m + i) * task.y_stride + work.row + g * kGroupRows, work.masks[g],
          _mm512_add_ps(total[i][g], bias));
  }
}

using TileFunction = void (*)(const TileTask&, const PanelWork&, int64_t);
template <bool kHasMin>
constexpr TileFunction kTiles[kMaxTileM] = {multiply_tile<1, kHasMin>, multiply_tile<2, kHasMin>,
    multiply_tile<3, kHasMin>, multiply_tile<4, kHasMin>, multiply_tile<5, kHasMin>,
    multiply_tile<6, kHasMin>};

void multiply_panel(const TileTask& task, int64_t row, int64_t k_begin) {
  thread_local Panel panel;
  const int64_t k = HWY_MIN(kBlockK, task.w.cols - k_begin);
  pack_panel(task, row, k_begin, k, panel);
  PanelWork work{.panel = &panel,
      .first_block = k_begin / 32,
      .num_blocks = k / 32,
      .offset = offset_of(task.w.dtype),
      .row = row,
      .masks = {},
      .first = k_begin == 0,
      .last = k_begin + k == task.w.cols};
  for (int g = 0; g < kGroups; ++g) {
    const int64_t rows =
        HWY_MAX(int64_t{0}, HWY_MIN(int64_t{kGroupRows}, task.row_end - row - g * kGroupRows));
    work.masks[g] = static_cast<__mmask16>((1u << rows) - 1);
  }
  const TileFunction* tiles = task.w.dtype == DType::kQ4_K ? kTiles<true> : kTiles<false>;
  const int64_t num_tiles = (task.m + kMaxTileM - 1) / kMaxTileM,
                tile_m = (task.m + num_tiles - 1) / num_tiles;
  for (int64_t i = 0; i < task.m; i += tile_m) tiles[HWY_MIN(tile_m, task.m - i) - 1](task, work, i);
}

// Few rows of x: W is read as it lies. Many: one block of k at a time, so that x's part of it stays in L2.
void int8_tile(const TileTask& task) {
  if (few(task)) {
    for (int64_t row = task.row_begin; row < task.row_end; row += kPanelRows)
      for (int64_t k = 0; k < task.w.cols; k += kBlockK) multiply_panel(task, row, k);
    return;
  }
  for (int64_t k = 0; k < task.w.cols; k += kBlockK)
    for (int64_t row = task.row_begin; row < task.row_end; row += kPanelRows) multiply_panel(task, row, k);
}

// Levels of one row of x: the block's largest magnitude becomes 127.
void quantize_x(const float* x, int64_t cols, int8_t* levels, QuantizedBlock* blocks) {
  for (int64_t b = 0; b < cols / 32; ++b) {
    const __m512 low = _mm512_loadu_ps(x + b * 32), high = _mm512_loadu_ps(x + b * 32 + 16);
    const float largest = _mm512_reduce_max_ps(_mm512_max_ps(_mm512_abs_ps(low), _mm512_abs_ps(high)));
    const __m512 inverse = _mm512_set1_ps(largest > 1e-30f ? 127 / largest : 0.f);
    const __m512i q0 = _mm512_cvtps_epi32(_mm512_mul_ps(low, inverse));
    const __m512i q1 = _mm512_cvtps_epi32(_mm512_mul_ps(high, inverse));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(levels + b * 32), _mm512_cvtsepi32_epi8(q0));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(levels + b * 32 + 16), _mm512_cvtsepi32_epi8(q1));
    blocks[b] = {.scale = largest / 127, .sum = _mm512_reduce_add_epi32(_mm512_add_epi32(q0, q1))};
  }
}

bool int8_fits(DType dtype) {
  return dtype == DType::kQ8_0 || dtype == DType::kQ4_0 || dtype == DType::kQ4_K;
}

#else  // no integer dot products: the F32 path serves

void int8_tile(const TileTask&) {}
void quantize_x(const float*, int64_t, int8_t*, QuantizedBlock*) {}
bool int8_fits(DType) { return false; }

#endif

}  // namespace
}  // namespace cheetah::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cheetah {
HWY_EXPORT(int8_tile);
HWY_EXPORT(quantize_x);
HWY_EXPORT(int8_fits);

bool fits_int8_tile(DType dtype) { return HWY_DYNAMIC_DISPATCH(int8_fits)(dtype); }
void run_int8_tile(const TileTask& task) { HWY_DYNAMIC_DISPATCH(int8_tile)(task); }
void quantize_x_row(const float* x, int64_t cols, int8_t* levels, QuantizedBlock* blocks) {
  HWY_DYNAMIC_DISPATCH(quantize_x)(x, cols, levels, blocks);
}
}  // namespace cheetah
#endif
