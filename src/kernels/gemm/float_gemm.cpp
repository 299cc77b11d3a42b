// One task of the F32 path: blocks of k outermost, then panels of W rows, then tiles of x rows.
// flops 2*m*n*k   bytes as gemm_cost()   bound: memory for a few rows of x, FMA beyond about 8
// why: a k block of 768 keeps a widened panel of W (6 rows, 18 KiB) in L1 and the packed rows of x in L2.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm/float_gemm.cpp"
#include "hwy/foreach_target.h"  // compiles this file once per target
#include "kernels/gemm/float_tile-inl.h"
#include "kernels/gemm/tile.h"
#include "kernels/quant/quant.h"

HWY_BEFORE_NAMESPACE();
namespace cheetah::HWY_NAMESPACE {
namespace {

constexpr int64_t kBlockK = 768;  // whole blocks of every dtype

struct Block {  // the part of a task between k_begin and k_begin + k
  int64_t k_begin = 0;
  int64_t k = 0;
  int64_t stride = 0;        // k rounded up to whole vectors
  const float* x = nullptr;  // packed rows, zero-padded to whole tiles and vectors
};

thread_local Scratch packed_x;
thread_local Scratch panel;

void pack_x(const TileTask& task, int64_t tile_m, Block& block) {
  const int64_t rows = hwy::RoundUpTo(static_cast<size_t>(task.m), static_cast<size_t>(tile_m));
  float* to = packed_x.get<float>(rows * block.stride);
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t used = i < task.m ? block.k : 0;
    if (used)
      std::memcpy(to, task.x + i * task.x_stride + block.k_begin, static_cast<size_t>(used) * sizeof(float));
    std::memset(to + used, 0, static_cast<size_t>(block.stride - used) * sizeof(float));
    to += block.stride;
  }
  block.x = packed_x.get<float>(0);
}

// Adds a block's sums to y; the first block starts from zero and the last one adds the bias.
void add_to_y(const TileTask& task, const Block& block, int64_t first_m, int64_t first_row, int tile_m,
              int tile_rows, const float* sums) {
  const int64_t m = HWY_MIN(int64_t{tile_m}, task.m - first_m);
  const int64_t rows = HWY_MIN(int64_t{tile_rows}, task.row_end - first_row);
  const bool last = block.k_begin + block.k == task.w.cols && task.bias;
  for (int64_t i = 0; i < m; ++i) {
    float* y = task.y + (first_m + i) * task.y_stride + first_row;
    for (int64_t j = 0; j < rows; ++j) {
      float sum = sums[i * tile_rows + j];
      if (block.k_begin) sum = y[j] + sum;
      y[j] = last ? sum + task.bias[first_row + j] : sum;
    }
  }
}

template <class Widen, int kM>
void multiply_panel(const TileTask& task, const Block& block, int64_t row, const std::byte* const* rows) {
  HWY_ALIGN float sums[kM * kTileRows<kM>];
  for (int64_t i = 0; i < task.m; i += kM) {
    dot_tile<Widen, kM>(block.x + i * block.stride, block.stride, rows, block.k, sums);
    add_to_y(task, block, i, row, kM, kTileRows<kM>, sums);
  }
}

// Rows past the end repeat the last one; their sums are dropped.
template <class Widen, int kM>
void multiply_stored(const TileTask& task, const Block& block) {
  constexpr int kN = kTileRows<kM>;
  const int64_t bytes = row_bytes(task.w.dtype, task.w.cols);
  const std::byte* rows[kN];
  for (int64_t row = task.row_begin; row < task.row_end; row += kN) {
    for (int j = 0; j < kN; ++j)
      rows[j] = task.w.data + HWY_MIN(row + j, task.row_end - 1) * bytes + block.k_begin * Widen::kBytes;
    multiply_panel<Widen, kM>(task, block, row, rows);
  }
}

void widen_into(DType dtype, const std::byte* from, float* to, int64_t elements) {
  switch (dtype) {
    case DType::kF32:
      return widen_plain<WidenF32>(from, to, elements);
    case DType::kF16:
      return widen_plain<WidenF16>(from, to, elements);
    case DType::kBF16:
      return widen_plain<WidenBF16>(from, to, elements);
    case DType::kQ8_0:
      return widen_q8_0(from, to, elements);
    case DType::kQ4_0:
      return widen_q4_0(from, to, elements);
    case DType::kQ4_K:
      return widen_q4_k(from, to, elements);
    default:
      return dequantize_row(dtype, from, to, elements);
  }
}

template <int kM>
void multiply_widened(const TileTask& task, const Block& block) {
  constexpr int kN = kTileRows<kM>;
  const int64_t bytes = row_bytes(task.w.dtype, task.w.cols);
  const int64_t skip = row_bytes(task.w.dtype, block.k_begin);
  float* widened = panel.get<float>(kMaxTileRows * kBlockK);
  const std::byte* rows[kN];
  for (int64_t row = task.row_begin; row < task.row_end; row += kN) {
    const auto count = static_cast<int>(HWY_MIN(int64_t{kN}, task.row_end - row));
    for (int j = 0; j < kN; ++j) {
      float* to = widened + HWY_MIN(j, count - 1) * block.stride;
      if (j < count) widen_into(task.w.dtype, task.w.data + (row + j) * bytes + skip, to, block.k);
      rows[j] = reinterpret_cast<const std::byte*>(to);
    }
    multiply_panel<WidenF32, kM>(task, block, row, rows);
  }
}

template <int kM>
void multiply_block(const TileTask& task, Block& block) {
  pack_x(task, kM, block);
  if (task.m > kM) return multiply_widened<kM>(task, block);
  switch (task.w.dtype) {  // W is used once: widen in registers
    case DType::kF32:
      return multiply_stored<WidenF32, kM>(task, block);
    case DType::kF16:
      return multiply_stored<WidenF16, kM>(task, block);
    case DType::kBF16:
      return multiply_stored<WidenBF16, kM>(task, block);
    default:
      return multiply_widened<kM>(task, block);
  }
}

void float_tile(const TileTask& task) {
  if (task.w.cols == 0) {  // no block would write y
    for (int64_t i = 0; i < task.m; ++i)
      for (int64_t row = task.row_begin; row < task.row_end; ++row)
        task.y[i * task.y_stride + row] = task.bias ? task.bias[row] : 0.f;
  }
  for (int64_t k = 0; k < task.w.cols; k += kBlockK) {
    Block block{.k_begin = k, .k = HWY_MIN(kBlockK, task.w.cols - k)};
    block.stride =
        static_cast<int64_t>(hwy::RoundUpTo(static_cast<size_t>(block.k), static_cast<size_t>(kLanes)));
    if (task.m == 1)
      multiply_block<1>(task, block);
    else if (task.m == 2)
      multiply_block<2>(task, block);
    else if (task.m <= 4 || task.m > 8)
      multiply_block<4>(task, block);
    else
      multiply_block<8>(task, block);
  }
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
