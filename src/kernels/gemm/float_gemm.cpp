// SPDX-License-Identifier: MIT
// One task of the F32 path: blocks of k outermost, then panels of W rows, then tiles of x rows.
// flops 2*m*n*k   bytes as gemm_cost()   bound: memory for a few rows of x, FMA beyond about 8
// why: a k block of 768 keeps a widened panel of W (6 rows, 18 KiB) in L1 and the packed rows of x in L2.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm/float_gemm.cpp"
#include <algorithm>

#include "hwy/foreach_target.h"  // compiles this file once per target
#include "kernels/gemm/float_tile-inl.h"
#include "kernels/gemm/tile.h"
#include "kernels/quant/widen_blocks-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cheetah::HWY_NAMESPACE {
namespace {

constexpr int64_t kBlockK = 768;  // whole blocks of every dtype

thread_local Scratch packed_x;
thread_local Scratch panel;

int64_t whole_vectors(int64_t k) { return (k + kLanes - 1) / kLanes * kLanes; }
int64_t whole_tiles(int64_t m, int64_t tile_m) { return (m + tile_m - 1) / tile_m * tile_m; }

// Part of k: x's rows lie `stride` apart, zero-padded to whole vectors and tiles.
struct Block {
  int64_t k_begin = 0;
  int64_t k = 0;
  int64_t stride = 0;
  const float* x = nullptr;
};

Block block_at(const TileTask& task, int64_t k_begin) {
  const int64_t k = HWY_MIN(kBlockK, task.w.cols - k_begin);
  return {.k_begin = k_begin, .k = k, .stride = whole_vectors(k), .x = nullptr};
}

void pack_x(const TileTask& task, int64_t tile_m, Block& block, float* to) {
  block.x = to;
  const int64_t rows = whole_tiles(task.m, tile_m);
  for (int64_t i = 0; i < rows; ++i, to += block.stride) {
    const int64_t used = i < task.m ? block.k : 0;
    if (used)
      std::memcpy(to, task.x + i * task.x_stride + block.k_begin, static_cast<size_t>(used) * sizeof(float));
    std::memset(to + used, 0, static_cast<size_t>(block.stride - used) * sizeof(float));
  }
}

// The rows of W from `row` on, over one block of k, widened or as stored; those past the end repeat the last.
template <class Widen, int kN>
void stored_rows(const TileTask& task, const Block& block, int64_t row, const std::byte** rows) {
  const int64_t bytes = task.w.cols * Widen::kBytes;
  for (int j = 0; j < kN; ++j)
    rows[j] = task.w.data + HWY_MIN(row + j, task.row_end - 1) * bytes + block.k_begin * Widen::kBytes;
}

void scale_row(const TileTask& task, const Block& block, int64_t row, float* to) {
  const float* scales = task.w.scales_of_row(row);
  for (int64_t k = 0; k < block.k;) {  // as far as one scale reaches
    const int64_t column = block.k_begin + k,
                  end = HWY_MIN(block.k, k + task.w.scales.cols - column % task.w.scales.cols);
    const float scale = scales[column / task.w.scales.cols];
    for (; k < end; ++k) to[k] *= scale;
  }
}

template <int kN>
void widened_rows(const TileTask& task, const Block& block, int64_t row, const std::byte** rows) {
  const int64_t bytes = row_bytes(task.w.dtype, task.w.cols), skip = row_bytes(task.w.dtype, block.k_begin);
  float* to = panel.get<float>(kMaxTileRows * kBlockK);
  for (int j = 0; j < kN; ++j) {
    if (row + j < task.row_end) {
      if (j) to += block.stride;
      widen_row(task.w.dtype, task.w.data + (row + j) * bytes + skip, to, block.k);
      if (task.w.scales.data) scale_row(task, block, row + j, to);
      std::fill(to + block.k, to + block.stride, 0.f);
    }
    rows[j] = reinterpret_cast<const std::byte*>(to);
  }
}

void add_bias(const TileTask& task) {
  for (int64_t i = 0; i < task.m; ++i)
    for (int64_t row = task.row_begin; row < task.row_end; ++row)
      task.y[i * task.y_stride + row] += task.bias[row];
}

// Few rows of x: W streams past once, a panel meeting every tile of x before the next is read. Blocks of k
// are innermost, to read W as it lies.
template <class Widen, int kM, bool kStored>
void multiply_stream(const TileTask& task) {
  constexpr int kN = kTileRows<kM>;
  const int64_t bytes = row_bytes(task.w.dtype, task.w.cols), padded_m = whole_tiles(task.m, kM);
  float* x = packed_x.get<float>(padded_m * whole_vectors(task.w.cols));
  for (int64_t k = 0; k < task.w.cols; k += kBlockK) {
    Block block = block_at(task, k);
    pack_x(task, kM, block, x + padded_m * k);
  }
  const std::byte* rows[kN];
  for (int64_t row = task.row_begin; row < task.row_end; row += kN) {
    const std::byte* ahead = task.w.data + row * bytes + HWY_MAX(kN * bytes, kPrefetchBytes);
    for (int64_t first_m = 0; first_m < task.m; first_m += kM) {
      float totals[kM * kN] = {};
      const bool fetches = kStored && first_m == 0;
      for (int64_t k = 0; k < task.w.cols; k += kBlockK) {
        Block block = block_at(task, k);
        HWY_ALIGN float sums[kM * kN + 3];
        if constexpr (kStored)
          stored_rows<Widen, kN>(task, block, row, rows);
        else
          widened_rows<kN>(task, block, row, rows);
        dot_tile<Widen, kM>(x + padded_m * k + first_m * block.stride, block.stride, rows, block.stride,
            fetches ? ahead : nullptr, sums);
        for (int i = 0; i < kM * kN; ++i) totals[i] = k ? totals[i] + sums[i] : sums[i];
        ahead += kN * block.k * Widen::kBytes;
      }
      for (int i = 0; i < kM && first_m + i < task.m; ++i)
        for (int j = 0; j < kN && row + j < task.row_end; ++j)
          task.y[(first_m + i) * task.y_stride + row + j] = totals[i * kN + j];
    }
  }
  if (task.bias) add_bias(task);
}

template <int kM>
void multiply_few(const TileTask& task) {
  if (task.w.cols % kLanes) return multiply_stream<WidenF32, kM, false>(task);
  switch (task.w.dtype) {
    case DType::kF32:
      return multiply_stream<WidenF32, kM, true>(task);
    case DType::kF16:
      return multiply_stream<WidenF16, kM, true>(task);
    case DType::kBF16:
      return multiply_stream<WidenBF16, kM, true>(task);
    default:
      return multiply_stream<WidenF32, kM, false>(task);
  }
}

// Types that are widened while loading, from a panel that stays in L1: up to so many rows of x that is
// cheaper than widening into a panel first, which reads W without fetching ahead.
bool streams_as_stored(const TileTask& task) {
  return task.w.cols % kLanes == 0 &&
         (task.w.dtype == DType::kF32 || task.w.dtype == DType::kF16 || task.w.dtype == DType::kBF16);
}
constexpr int kStreamTileM = HWY_TARGET <= HWY_AVX3 ? 8 : 4;
constexpr int64_t kMostStreamed = 64;

// Adds a block's sums to y; the first block starts it.
template <int kM, bool kFirst>
void add_to_y(const TileTask& task, int64_t first_m, int64_t row, const float* sums) {
  constexpr int kN = kTileRows<kM>;
  const auto add = [&](int64_t m, int64_t count) HWY_ATTR {
    for (int64_t i = 0; i < m; ++i) {
      float* y = task.y + (first_m + i) * task.y_stride + row;
      for (int64_t j = 0; j < count; ++j) y[j] = kFirst ? sums[i * kN + j] : y[j] + sums[i * kN + j];
    }
  };
  const int64_t m = HWY_MIN(int64_t{kM}, task.m - first_m), count = HWY_MIN(int64_t{kN}, task.row_end - row);
  if (m == kM && count == kN)
    add(kM, kN);  // whole tiles, nearly all of them: loops of known length
  else
    add(m, count);
}

// Many rows of x: a panel of W is widened into L1 once and meets every tile of x.
void multiply_many(const TileTask& task) {
  constexpr int kM = 4, kN = kTileRows<kM>;
  float* x = packed_x.get<float>(whole_tiles(task.m, kM) * kBlockK);
  const std::byte* rows[kN];
  HWY_ALIGN float sums[kM * kN];
  for (int64_t k = 0; k < task.w.cols; k += kBlockK) {
    Block block = block_at(task, k);
    pack_x(task, kM, block, x);
    for (int64_t row = task.row_begin; row < task.row_end; row += kN) {
      widened_rows<kN>(task, block, row, rows);
      for (int64_t i = 0; i < task.m; i += kM) {
        dot_tile<WidenF32, kM>(x + i * block.stride, block.stride, rows, block.stride, nullptr, sums);
        if (k == 0)
          add_to_y<kM, true>(task, i, row, sums);
        else
          add_to_y<kM, false>(task, i, row, sums);
      }
    }
  }
  if (task.bias) add_bias(task);
}

void only_bias(const TileTask& task) {
  for (int64_t i = 0; i < task.m; ++i)
    for (int64_t row = task.row_begin; row < task.row_end; ++row)
      task.y[i * task.y_stride + row] = task.bias ? task.bias[row] : 0.f;
}

void float_tile(const TileTask& task) {
  if (task.w.cols == 0) return only_bias(task);
  if (task.m == 1) return multiply_few<1>(task);
  if (task.m == 2) return multiply_few<2>(task);
  if (task.m <= 4) return multiply_few<4>(task);
  if (task.m <= 8) return multiply_few<8>(task);
  if (task.m <= kMostStreamed && streams_as_stored(task)) return multiply_few<kStreamTileM>(task);
  multiply_many(task);
}

}  // namespace
}  // namespace cheetah::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cheetah {
HWY_EXPORT(float_tile);
void run_float_tile(const TileTask& task) { HWY_DYNAMIC_DISPATCH(float_tile)(task); }
}  // namespace cheetah
#endif
