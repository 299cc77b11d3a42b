// SPDX-License-Identifier: MIT
#include "kernels/gemm/gemm.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "kernels/gemm/tile.h"

namespace cheetah {
namespace {

// A task's rows of W are a multiple of its tile's: 6, 4 and 3 divide 48, the integer path's 32 divides 96.
// About 96 of them repay packing x.
int64_t row_quantum(DType dtype) { return fits_int8_tile(dtype) ? 96 : 48; }
constexpr int64_t kEnoughTaskRows = 96;
constexpr int64_t kMaxTaskRows = 192;
constexpr int64_t kQuantizeGrain = 16;      // rows of x
constexpr int64_t kSmallProduct = 1 << 16;  // multiplications under which waking the pool costs more

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// One product of a call, cut into tasks numbered from first_task.
struct Product {
  TileTask whole;
  int64_t first_task = 0;
  int64_t task_rows = 0;
  int64_t m_blocks = 0;
  void (*run_tile)(const TileTask&) = run_float_tile;

  int64_t num_tasks() const { return divide_up(whole.row_end, task_rows) * m_blocks; }

  // Blocks of x vary fastest, so that neighbours in time share rows of W.
  TileTask task(int64_t index) const {
    TileTask out = whole;
    out.row_begin = index / m_blocks * task_rows;
    out.row_end = std::min(whole.row_end, out.row_begin + task_rows);
    const int64_t first_m = index % m_blocks * kMaxTaskM;
    out.m = std::min(kMaxTaskM, whole.m - first_m);
    out.x += first_m * out.x_stride;
    out.y += first_m * out.y_stride;
    if (out.quantized.levels) {
      out.quantized.levels += first_m * out.w.cols;
      out.quantized.blocks += first_m * (out.w.cols / 32);
    }
    return out;
  }
};

Product cut(const TileTask& whole, int num_threads) {
  Product product{.whole = whole};
  const int64_t quantum = row_quantum(whole.w.dtype);
  product.m_blocks = divide_up(whole.m, kMaxTaskM);
  product.task_rows = kMaxTaskRows;
  const int64_t enough_tasks = 4 * num_threads;
  if (product.num_tasks() < enough_tasks) {  // as many as keep every thread busy to the end
    const int64_t tasks = std::max<int64_t>(1, whole.w.rows / kEnoughTaskRows / num_threads) * num_threads;
    product.task_rows = divide_up(divide_up(whole.w.rows, tasks), quantum) * quantum;
  }
  if (num_threads == 1 || whole.m * whole.w.rows * whole.w.cols < kSmallProduct)
    product.task_rows = divide_up(whole.w.rows, quantum) * quantum;
  return product;
}

// Quantizes x for the products with an integer tile: before the parallel region for a few rows, else in one
// of its own.
void quantize_x(std::vector<Product>& products, ThreadPool& pool) {
  thread_local Scratch level_storage, block_storage;
  int64_t elements = 0;
  for (const Product& product : products)
    if (fits_int8_tile(product.whole.w.dtype)) elements += product.whole.m * product.whole.w.cols;
  QuantizedX next{level_storage.get<int8_t>(elements), block_storage.get<QuantizedBlock>(elements / 32)};
  for (Product& product : products) {
    TileTask& whole = product.whole;
    if (whole.w.cols == 0 || !fits_int8_tile(whole.w.dtype)) continue;
    whole.quantized = next;
    product.run_tile = run_int8_tile;
    pool.parallel_for(whole.m, kQuantizeGrain, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i)
        quantize_x_row(whole.x + i * whole.x_stride, whole.w.cols, next.levels + i * whole.w.cols,
            next.blocks + i * (whole.w.cols / 32));
    });
    next.levels += whole.m * whole.w.cols;
    next.blocks += whole.m * whole.w.cols / 32;
  }
}

void choose_native(std::vector<Product>& products, ThreadPool& pool) {
  for (Product& product : products)
    if (fits_bf16_tile(product.whole.w)) product.run_tile = run_bf16_tile;
  quantize_x(products, pool);
}

void run(std::vector<Product>& products, const CpuContext& context) {
  if (context.precision == Precision::kNative) choose_native(products, context.pool);
  int64_t tasks = 0;
  for (Product& product : products) {
    product.first_task = tasks;
    tasks += product.num_tasks();
  }
  context.pool.parallel_for(tasks, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t index = begin; index < end; ++index) {
      const auto after = std::upper_bound(products.begin(), products.end(), index,
          [](int64_t i, const Product& p) { return i < p.first_task; });
      const Product& product = *(after - 1);
      const TileTask task = product.task(index - product.first_task);
      product.run_tile(task);
    }
  });
}

std::vector<Product>& cleared_products() {
  thread_local std::vector<Product> products;  // keeps its storage between calls
  products.clear();
  return products;
}

void check(const WeightMatrix& w, int64_t x_stride, int64_t y_stride) {
  CHEETAH_ASSERT(w.rows >= 0 && w.cols >= 0, "a matrix has no negative size");
  CHEETAH_ASSERT(x_stride >= w.cols && y_stride >= w.rows, "rows of x or y overlap");
}

}  // namespace

void gemm(const GemmArgs& args, const CpuContext& context) {
  if (args.m == 0 || args.w.rows == 0) return;
  check(args.w, args.x_stride, args.y_stride);
  std::vector<Product>& products = cleared_products();
  const TileTask whole{.w = args.w,
      .row_begin = 0,
      .row_end = args.w.rows,
      .x = args.x,
      .x_stride = args.x_stride,
      .m = args.m,
      .bias = args.bias,
      .y = args.y,
      .y_stride = args.y_stride,
      .quantized = {}};
  products.push_back(cut(whole, context.pool.num_threads()));
  run(products, context);
}

void grouped_gemm(const GroupedGemmArgs& args, const CpuContext& context) {
  CHEETAH_ASSERT(args.offsets.size() == args.experts.size() + 1, "one offset per expert and the end");
  CHEETAH_ASSERT(args.biases.empty() || args.biases.size() == args.experts.size(), "one bias per expert");
  std::vector<Product>& products = cleared_products();
  for (size_t expert = 0; expert < args.experts.size(); ++expert) {
    const WeightMatrix& w = args.experts[expert];
    const int64_t first = args.offsets[expert], m = args.offsets[expert + 1] - first;
    CHEETAH_ASSERT(m >= 0, "offsets ascend");
    if (m == 0 || w.rows == 0) continue;
    check(w, args.x_stride, args.y_stride);
    const TileTask whole{.w = w,
        .row_begin = 0,
        .row_end = w.rows,
        .x = args.x + first * args.x_stride,
        .x_stride = args.x_stride,
        .m = m,
        .bias = args.biases.empty() ? nullptr : args.biases[expert],
        .y = args.y + first * args.y_stride,
        .y_stride = args.y_stride,
        .quantized = {}};
    products.push_back(cut(whole, context.pool.num_threads()));
  }
  run(products, context);
}

}  // namespace cheetah
