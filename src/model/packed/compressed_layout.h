// SPDX-License-Identifier: MIT
#pragma once
// compressed-tensors' files. Packed: weight_packed [outputs, words] of 32-bit words that hold 32 / bits numbers
// each, weight_scale [outputs, groups], weight_shape [2], weight_zero_point packed along the outputs for
// asymmetric ones, weight_g_idx for activation order. Numbers are stored with half their range added.
// Plain 8-bit: weight [outputs, inputs] I8 and weight_scale.
#include "model/packed/int_matrix.h"

namespace cheetah {

struct CompressedTensors {
  TensorView packed, scale, shape;
  const TensorView* zero_point = nullptr;
  const TensorView* g_idx = nullptr;
  int bits = 4;
};

// Whether `packed` can hold rows of this many inputs with so many bits.
bool fits_packed(const TensorView& packed, int64_t inputs, int bits);
// [outputs, inputs] of a weight_shape. Throws Error.
Shape stored_shape(const TensorView& shape, const std::string& what);

IntMatrix unpack_compressed(const CompressedTensors& tensors, const std::string& what);
IntMatrix read_int8(
    const TensorView& weight, const TensorView& scale, const TensorView* zero_point, const std::string& what);

// Symmetric ones. `scale_type`: F16, BF16 or F32.
std::vector<OwnedTensor> pack_compressed(const IntMatrix& matrix, const std::string& name, DType scale_type);
std::vector<OwnedTensor> pack_int8(const IntMatrix& matrix, const std::string& name, DType scale_type);

// FP4 numbers in pairs, the first in the low nibble, with a scale byte per group: E8M0 for groups of 32
// (MXFP4), E4M3 with a global divisor for groups of 16 (NVFP4). As F32 rows.
struct Fp4Tensors {
  TensorView packed, scale;
  const TensorView* global_scale = nullptr;  // NVFP4
};
void check_fp4(const Fp4Tensors& tensors, const std::string& what);
void dequantize_fp4_row(const Fp4Tensors& tensors, int64_t row, float* to);
void mxfp4_blocks(const Fp4Tensors& tensors, int64_t row, std::byte* to);

}  // namespace cheetah
