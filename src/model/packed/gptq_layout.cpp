// SPDX-License-Identifier: MIT
#include "model/packed/gptq_layout.h"

#include <cstring>

#include "base/error.h"
#include "base/format.h"
#include "kernels/quant/quant.h"
#include "model/packed/bit_rows.h"
#include "model/packed/pack_tools.h"
#include "tensor/float16.h"

namespace cheetah {
namespace {

void require(bool fits, const std::string& what, const char* part, const TensorView& view) {
  if (!fits)
    throw Error(format("{}: \"{}\" is {} {}, which does not fit its other parts", what, part,
        name_of(view.dtype), view.shape.text()));
}

bool is_bits(int64_t bits) { return bits == 2 || bits == 3 || bits == 4 || bits == 8; }

void read_group_index(const TensorView& view, const std::string& what, IntMatrix& matrix) {
  require(view.dtype == DType::kI32 && view.shape == Shape{matrix.cols}, what, "g_idx", view);
  matrix.group_of.resize(static_cast<size_t>(matrix.cols));
  std::memcpy(matrix.group_of.data(), view.data, static_cast<size_t>(view.bytes()));
  if (matrix.cols % matrix.groups != 0) return;
  bool in_order = true;
  for (int64_t col = 0; col < matrix.cols; ++col)
    in_order = in_order && matrix.group_of[static_cast<size_t>(col)] == col / matrix.group_size();
  if (in_order) matrix.group_of.clear();
}

}  // namespace

IntMatrix unpack_gptq(const GptqTensors& tensors, const std::string& what) {
  const TensorView &qweight = tensors.qweight, &qzeros = tensors.qzeros, &scales = tensors.scales;
  require(qweight.dtype == DType::kI32 && qweight.shape.rank() == 2, what, "qweight", qweight);
  IntMatrix matrix;
  matrix.rows = qweight.cols();
  require(
      is_float(scales.dtype) && scales.shape.rank() == 2 && scales.cols() == matrix.rows && scales.rows() > 0,
      what, "scales", scales);
  matrix.groups = scales.rows();
  require(qzeros.dtype == DType::kI32 && qzeros.shape.rank() == 2 && qzeros.rows() == matrix.groups &&
              matrix.rows > 0,
      what, "qzeros", qzeros);
  const int64_t bits = qzeros.cols() * 32 / matrix.rows;
  require(is_bits(bits) && qzeros.cols() * 32 == matrix.rows * bits, what, "qzeros", qzeros);
  matrix.bits = static_cast<int>(bits);
  require(qweight.rows() > 0 && qweight.rows() * 32 % bits == 0, what, "qweight", qweight);
  matrix.cols = qweight.rows() * 32 / bits;
  if (tensors.g_idx) read_group_index(*tensors.g_idx, what, matrix);
  matrix.codes.resize(static_cast<size_t>(matrix.rows * matrix.cols));
  matrix.scales.resize(static_cast<size_t>(matrix.rows * matrix.groups));
  matrix.zeros.resize(matrix.scales.size());
  std::vector<float> row(static_cast<size_t>(matrix.rows));
  for (int64_t g = 0; g < matrix.groups; ++g) {
    dequantize_row(scales.dtype, scales.row(g), row.data(), matrix.rows);
    const BitWords zeros{qzeros.row(g)};
    for (int64_t r = 0; r < matrix.rows; ++r) {
      const auto at = static_cast<size_t>(r * matrix.groups + g);
      matrix.scales[at] = row[static_cast<size_t>(r)];
      matrix.zeros[at] = static_cast<uint16_t>(zeros.number(r, matrix.bits) + (tensors.minus_one ? 1 : 0));
    }
  }
  for (int64_t r = 0; r < matrix.rows; ++r) {
    const BitWords words{qweight.data + r * 4, matrix.rows * 4};
    for (int64_t c = 0; c < matrix.cols; ++c)
      matrix.codes[static_cast<size_t>(r * matrix.cols + c)] = words.number(c, matrix.bits);
  }
  check(matrix, what);
  return matrix;
}

std::vector<OwnedTensor> pack_gptq(const IntMatrix& matrix, const std::string& name) {
  const int64_t out = matrix.rows, in = matrix.cols;
  OwnedTensor qweight = zeroed(name + ".qweight", DType::kI32, {words_for(in, matrix.bits), out});
  for (int64_t r = 0; r < out; ++r) {
    const BitWriter words{qweight.data.data() + r * 4, out * 4};
    for (int64_t c = 0; c < in; ++c) words.put(c, matrix.bits, matrix.codes[static_cast<size_t>(r * in + c)]);
  }
  OwnedTensor qzeros = zeroed(name + ".qzeros", DType::kI32, {matrix.groups, words_for(out, matrix.bits)});
  OwnedTensor scales = zeroed(name + ".scales", DType::kF16, {matrix.groups, out});
  const auto mask = static_cast<unsigned>((1 << matrix.bits) - 1);
  for (int64_t g = 0; g < matrix.groups; ++g) {
    const BitWriter zeros{qzeros.data.data() + g * words_for(out, matrix.bits) * 4};
    for (int64_t r = 0; r < out; ++r) {
      const auto at = static_cast<size_t>(r * matrix.groups + g);
      zeros.put(r, matrix.bits, static_cast<uint8_t>((matrix.zeros[at] - 1u) & mask));
      store(scales, g * out + r, f32_to_f16(matrix.scales[at]));
    }
  }
  OwnedTensor g_idx = zeroed(name + ".g_idx", DType::kI32, {in});
  for (int64_t c = 0; c < in; ++c) store(g_idx, c, static_cast<int32_t>(matrix.group(c)));
  return {std::move(qweight), std::move(qzeros), std::move(scales), std::move(g_idx)};
}

}  // namespace cheetah
