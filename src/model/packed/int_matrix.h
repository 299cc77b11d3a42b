// SPDX-License-Identifier: MIT
#pragma once
// A weight matrix as whole numbers with a scale per group: what GPTQ, AWQ and compressed-tensors files hold,
// each packed in its own way.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/files/tensor_map.h"
#include "tensor/tensor.h"

namespace cheetah {

// value = scales[row, group] * (code - zeros[row, group])
struct IntMatrix {
  int64_t rows = 0;                    // outputs
  int64_t cols = 0;                    // inputs
  int bits = 4;                        // 1 to 8
  int64_t groups = 1;                  // along the inputs
  std::vector<uint8_t> codes = {};     // [rows, cols]
  std::vector<float> scales = {};      // [rows, groups]
  std::vector<uint16_t> zeros = {};    // [rows, groups]
  std::vector<int32_t> group_of = {};  // [cols]; empty: groups of neighbours

  int64_t group_size() const { return cols / groups; }
  int64_t group(int64_t col) const {
    return group_of.empty() ? col / group_size() : group_of[static_cast<size_t>(col)];
  }
  int symmetric_zero() const { return 1 << (bits - 1); }
};

void dequantize_row(const IntMatrix& matrix, int64_t row, float* to);

// Checks what a file may have got wrong: sizes, finite scales, groups in range. Throws Error naming `what`.
void check(const IntMatrix& matrix, const std::string& what);

// A block type that holds exactly these numbers, where there is one: Q4_0 and Q8_0 for symmetric groups of
// whole blocks whose scales are F16 numbers.
std::optional<DType> exact_block_type(const IntMatrix& matrix);
void to_blocks(const IntMatrix& matrix, DType dtype, int64_t row, std::byte* to);

// A tensor to be written.
struct OwnedTensor {
  std::string name;
  DType dtype = DType::kU8;
  Shape shape = {};
  std::vector<std::byte> data = {};

  TensorView view() const { return {.dtype = dtype, .shape = shape, .data = data.data()}; }
};

}  // namespace cheetah
