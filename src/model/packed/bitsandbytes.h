// SPDX-License-Identifier: MIT
#pragma once
// bitsandbytes' files. NF4 and FP4: NAME.weight [elements / 2, 1] U8, the first number of a pair in the high
// nibble, an absmax per block of elements, itself in 8 bits where it was quantized again, and a table of 16
// values; a JSON text in NAME.weight.quant_state.bitsandbytes__nf4 tells the sizes. INT8: NAME.weight I8 and
// NAME.SCB, each row's largest magnitude.
#include <string>
#include <vector>

#include "model/packed/int_matrix.h"

namespace cheetah {

struct Nf4Matrix {
  Shape shape;
  int64_t block = 64;
  std::vector<float> table = {};   // [16]
  std::vector<float> absmax = {};  // per block
  const std::byte* codes = nullptr;
};

// Whether bitsandbytes' 4-bit weight `name` ("….weight") stands there.
bool is_bnb4(const TensorMap& tensors, const std::string& name);
Nf4Matrix read_bnb4(const TensorMap& tensors, const std::string& name, const std::string& what);
void dequantize_row(const Nf4Matrix& matrix, int64_t row, float* to);
// The names that belong to it, itself included.
std::vector<std::string> bnb4_parts(const TensorMap& tensors, const std::string& name);

IntMatrix read_bnb8(const TensorView& weight, const TensorView& largest, const std::string& what);

}  // namespace cheetah
