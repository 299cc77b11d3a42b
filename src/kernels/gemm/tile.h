// SPDX-License-Identifier: MIT
#pragma once
// What gemm.cpp hands to a tile kernel: one rectangle of one product's output.
#include <cstdint>

#include "kernels/gemm/gemm.h"
#include "tensor/tensor.h"

namespace cheetah {

// One 32-column block of a row of x: level l stands for scale * l.
struct QuantizedBlock {
  float scale = 0;
  int32_t sum = 0;  // of the levels
};

// x in 8 bits, for the integer tiles. [m, w.cols] levels and [m, w.cols / 32] blocks.
struct QuantizedX {
  int8_t* levels = nullptr;
  QuantizedBlock* blocks = nullptr;
};

struct TileTask {
  WeightMatrix w;
  int64_t row_begin = 0;  // rows of W, columns of y
  int64_t row_end = 0;
  const float* x = nullptr;  // [m, w.cols], the rectangle's first row
  int64_t x_stride = 0;
  int64_t m = 0;
  const float* bias = nullptr;  // [w.rows] or none
  float* y = nullptr;           // [m, w.rows], the rectangle's first row
  int64_t y_stride = 0;
  QuantizedX quantized;  // of the same rows as x; for run_int8_tile only
};

// Rows of x a task may hold: its packed block of 128 x 768 F32 takes 384 KiB of a core's L2.
inline constexpr int64_t kMaxTaskM = 128;

// Widens W to F32 and multiplies in F32; any dtype.
void run_float_tile(const TileTask& task);

// Multiplies quantized weights by quantized x in integers, where this machine can and the type fits.
bool fits_int8_tile(DType dtype);
void run_int8_tile(const TileTask& task);
void quantize_x_row(const float* x, int64_t cols, int8_t* levels, QuantizedBlock* blocks);

// Multiplies BF16 weights by x rounded to BF16, where this machine can.
bool fits_bf16_tile(const WeightMatrix& w);
void run_bf16_tile(const TileTask& task);

// Scratch that grows to the largest use and stays: kernels allocate nothing once warm.
class Scratch {
 public:
  template <class T>
  T* get(int64_t count) {
    const int64_t bytes = count * static_cast<int64_t>(sizeof(T));
    if (buffer_.size() < bytes) buffer_ = Buffer(bytes);
    return buffer_.as<T>();
  }

 private:
  Buffer buffer_;
};

}  // namespace cheetah
