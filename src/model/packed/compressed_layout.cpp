// SPDX-License-Identifier: MIT
#include "model/packed/compressed_layout.h"

#include <array>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/format.h"
#include "kernels/quant/blocks.h"
#include "kernels/quant/quant.h"
#include "model/packed/bit_rows.h"
#include "model/packed/pack_tools.h"

namespace cheetah {
namespace {

constexpr std::array<float, 8> kFp4 = {0, 0.5, 1, 1.5, 2, 3, 4, 6};

void require(bool fits, const std::string& what, const char* part, const TensorView& view) {
  if (!fits)
    throw Error(format("{}: \"{}\" is {} {}, which does not fit its other parts", what, part,
        name_of(view.dtype), view.shape.text()));
}

int per_word(int bits) { return 32 / bits; }

uint8_t packed_number(const std::byte* row, int64_t index, int bits) {
  const int many = per_word(bits);
  const uint32_t word = BitWords{row}.word(index / many);
  return static_cast<uint8_t>((word >> (index % many * bits)) & ((1u << bits) - 1));
}

void put_number(std::byte* row, int64_t index, int bits, uint8_t value) {
  const int many = per_word(bits);
  uint32_t word;
  std::memcpy(&word, row + index / many * 4, sizeof word);
  word |= static_cast<uint32_t>(value) << (index % many * bits);
  std::memcpy(row + index / many * 4, &word, sizeof word);
}

// Scales [outputs, groups], [outputs] or one for all.
void read_scales(const TensorView& scale, const std::string& what, IntMatrix& matrix) {
  const bool one = scale.shape.elements() == 1, flat = scale.shape == Shape{matrix.rows};
  require(
      is_float(scale.dtype) &&
          (one || flat || (scale.shape.rank() == 2 && scale.shape[0] == matrix.rows && scale.shape[1] > 0)),
      what, "weight_scale", scale);
  matrix.groups = one || flat ? 1 : scale.shape[1];
  matrix.scales.resize(static_cast<size_t>(matrix.rows * matrix.groups));
  if (one) {
    float value = 0;
    dequantize_row(scale.dtype, scale.data, &value, 1);
    matrix.scales.assign(matrix.scales.size(), value);
    return;
  }
  dequantize_row(scale.dtype, scale.data, matrix.scales.data(), matrix.rows * matrix.groups);
}

void write_scales(const IntMatrix& matrix, OwnedTensor& scales) {
  quantize_row(scales.dtype, matrix.scales.data(), scales.data.data(), matrix.rows * matrix.groups);
}

}  // namespace

bool fits_packed(const TensorView& packed, int64_t inputs, int bits) {
  return bits >= 1 && bits <= 8 && packed.shape.rank() == 2 &&
         packed.shape[1] == (inputs + per_word(bits) - 1) / per_word(bits);
}

Shape stored_shape(const TensorView& shape, const std::string& what) {
  std::array<int64_t, 2> sides{};
  const bool wide = shape.dtype == DType::kI64;
  require((wide || shape.dtype == DType::kI32) && shape.shape == Shape{2}, what, "weight_shape", shape);
  for (size_t i = 0; i < 2; ++i) {
    if (wide) {
      std::memcpy(&sides[i], shape.data + i * 8, 8);
    } else {
      int32_t side = 0;
      std::memcpy(&side, shape.data + i * 4, 4);
      sides[i] = side;
    }
    constexpr int64_t kMostSide = int64_t{1} << 26;
    if (sides[i] < 1 || sides[i] > kMostSide)
      throw Error(
          format("{}: \"weight_shape\" holds {}, expected a size from 1 to {}", what, sides[i], kMostSide));
  }
  return {sides[0], sides[1]};
}

IntMatrix unpack_compressed(const CompressedTensors& tensors, const std::string& what) {
  const Shape shape = stored_shape(tensors.shape, what);
  IntMatrix matrix{.rows = shape[0], .cols = shape[1], .bits = tensors.bits};
  require(tensors.packed.dtype == DType::kI32 && tensors.packed.shape.rank() == 2 &&
              tensors.packed.shape[0] == matrix.rows && fits_packed(tensors.packed, matrix.cols, matrix.bits),
      what, "weight_packed", tensors.packed);
  read_scales(tensors.scale, what, matrix);
  matrix.codes.resize(static_cast<size_t>(matrix.rows * matrix.cols));
  for (int64_t r = 0; r < matrix.rows; ++r)
    for (int64_t c = 0; c < matrix.cols; ++c)
      matrix.codes[static_cast<size_t>(r * matrix.cols + c)] =
          packed_number(tensors.packed.row(r), c, matrix.bits);
  matrix.zeros.assign(matrix.scales.size(), static_cast<uint16_t>(matrix.symmetric_zero()));
  if (const TensorView* zeros = tensors.zero_point) {
    const int64_t words = (matrix.rows + per_word(matrix.bits) - 1) / per_word(matrix.bits);
    require(zeros->dtype == DType::kI32 && zeros->shape == Shape{words, matrix.groups}, what,
        "weight_zero_point", *zeros);
    for (int64_t r = 0; r < matrix.rows; ++r)
      for (int64_t g = 0; g < matrix.groups; ++g) {
        const int64_t word = r / per_word(matrix.bits) * matrix.groups + g;
        const uint32_t value = BitWords{zeros->data}.word(word) >> (r % per_word(matrix.bits) * matrix.bits);
        matrix.zeros[static_cast<size_t>(r * matrix.groups + g)] =
            static_cast<uint16_t>(value & ((1u << matrix.bits) - 1));
      }
  }
  if (const TensorView* order = tensors.g_idx) {
    require(order->dtype == DType::kI32 && order->shape == Shape{matrix.cols}, what, "weight_g_idx", *order);
    matrix.group_of.resize(static_cast<size_t>(matrix.cols));
    std::memcpy(matrix.group_of.data(), order->data, static_cast<size_t>(order->bytes()));
    if (matrix.group_of.front() == -1) matrix.group_of.clear();  // written, but not used
  }
  check(matrix, what);
  return matrix;
}

IntMatrix read_int8(const TensorView& weight, const TensorView& scale, const TensorView* zero_point,
    const std::string& what) {
  require(weight.dtype == DType::kI8 && weight.shape.rank() == 2 && weight.shape.elements() > 0, what,
      "weight", weight);
  IntMatrix matrix{.rows = weight.rows(), .cols = weight.cols(), .bits = 8};
  read_scales(scale, what, matrix);
  matrix.codes.resize(static_cast<size_t>(matrix.rows * matrix.cols));
  for (size_t i = 0; i < matrix.codes.size(); ++i)
    matrix.codes[i] = static_cast<uint8_t>(std::to_integer<unsigned>(weight.data[i]) ^ 0x80u);
  matrix.zeros.assign(matrix.scales.size(), 128);
  if (zero_point) {
    require(zero_point->dtype == DType::kI8 && zero_point->shape.elements() == scale.shape.elements() &&
                scale.shape.elements() == std::ssize(matrix.zeros),
        what, "weight_zero_point", *zero_point);
    for (size_t i = 0; i < matrix.zeros.size(); ++i)
      matrix.zeros[i] = static_cast<uint16_t>(std::to_integer<unsigned>(zero_point->data[i]) ^ 0x80u);
  }
  check(matrix, what);
  return matrix;
}

std::vector<OwnedTensor> pack_compressed(const IntMatrix& matrix, const std::string& name, DType scale_type) {
  const int64_t words = (matrix.cols + per_word(matrix.bits) - 1) / per_word(matrix.bits);
  OwnedTensor packed = zeroed(name + ".weight_packed", DType::kI32, {matrix.rows, words});
  for (int64_t r = 0; r < matrix.rows; ++r)
    for (int64_t c = 0; c < matrix.cols; ++c)
      put_number(packed.data.data() + r * words * 4, c, matrix.bits,
          matrix.codes[static_cast<size_t>(r * matrix.cols + c)]);
  OwnedTensor scales = zeroed(name + ".weight_scale", scale_type, {matrix.rows, matrix.groups});
  write_scales(matrix, scales);
  OwnedTensor shape = zeroed(name + ".weight_shape", DType::kI64, {2});
  store(shape, 0, matrix.rows);
  store(shape, 1, matrix.cols);
  return {std::move(packed), std::move(scales), std::move(shape)};
}

std::vector<OwnedTensor> pack_int8(const IntMatrix& matrix, const std::string& name, DType scale_type) {
  OwnedTensor weight = zeroed(name + ".weight", DType::kI8, {matrix.rows, matrix.cols});
  for (size_t i = 0; i < matrix.codes.size(); ++i)
    weight.data[i] = static_cast<std::byte>(matrix.codes[i] ^ 0x80u);
  OwnedTensor scales = zeroed(name + ".weight_scale", scale_type, {matrix.rows, matrix.groups});
  write_scales(matrix, scales);
  return {std::move(weight), std::move(scales)};
}

void check_fp4(const Fp4Tensors& tensors, const std::string& what) {
  const TensorView &packed = tensors.packed, &scale = tensors.scale;
  require(packed.dtype == DType::kU8 && packed.shape.rank() == 2 && packed.shape.elements() > 0, what,
      "weight_packed", packed);
  const int64_t size = tensors.global_scale ? 16 : 32, cols = packed.cols() * 2;
  const DType type = tensors.global_scale ? DType::kF8E4M3 : DType::kU8;
  require(scale.dtype == type && cols % size == 0 && scale.shape == Shape{packed.rows(), cols / size}, what,
      "weight_scale", scale);
  for (int64_t i = 0; i < scale.shape.elements(); ++i) {
    const unsigned bits = std::to_integer<unsigned>(scale.data[i]);
    if (tensors.global_scale ? (bits & 0x7Fu) == 0x7Fu : bits == 0xFFu)
      throw Error(format("{}: a scale is no number: the file is damaged", what));
  }
  if (!tensors.global_scale) return;
  float divisor = 0;
  require(tensors.global_scale->dtype == DType::kF32 && tensors.global_scale->shape.elements() == 1, what,
      "weight_global_scale", *tensors.global_scale);
  std::memcpy(&divisor, tensors.global_scale->data, sizeof divisor);
  if (!std::isfinite(divisor) || divisor <= 0)
    throw Error(format("{}: \"weight_global_scale\" is {}, expected a number above 0", what, divisor));
}

void dequantize_fp4_row(const Fp4Tensors& tensors, int64_t row, float* to) {
  const int64_t size = tensors.global_scale ? 16 : 32, cols = tensors.packed.cols() * 2;
  float divisor = 1;
  if (tensors.global_scale) std::memcpy(&divisor, tensors.global_scale->data, sizeof divisor);
  for (int64_t c = 0; c < cols; ++c) {
    float scale = 0;
    const std::byte* stored = tensors.scale.row(row) + c / size;
    if (tensors.global_scale)
      dequantize_row(DType::kF8E4M3, stored, &scale, 1);
    else
      scale = std::ldexp(1.f, std::to_integer<int>(*stored) - 127);
    const unsigned code = (std::to_integer<unsigned>(tensors.packed.row(row)[c / 2]) >> (c % 2 * 4)) & 15u;
    to[c] = (code & 8u ? -1.f : 1.f) * kFp4[code & 7u] * (scale / divisor);
  }
}

void mxfp4_blocks(const Fp4Tensors& tensors, int64_t row, std::byte* to) {
  const std::byte* packed = tensors.packed.row(row);
  const auto code = [&](int64_t col) {
    return (std::to_integer<unsigned>(packed[col / 2]) >> (col % 2 * 4)) & 15u;
  };
  for (int64_t b = 0; b < tensors.scale.cols(); ++b) {
    BlockMXFP4 block{.e = std::to_integer<uint8_t>(tensors.scale.row(row)[b]), .q = {}};
    for (int64_t i = 0; i < 16; ++i)
      block.q[i] = static_cast<uint8_t>(code(b * 32 + i) | (code(b * 32 + 16 + i) << 4));
    std::memcpy(to + b * static_cast<int64_t>(sizeof block), &block, sizeof block);
  }
}

}  // namespace cheetah
