// SPDX-License-Identifier: MIT
#include "model/packed/awq_layout.h"

#include <array>
#include <cstring>

#include "base/error.h"
#include "base/format.h"
#include "kernels/quant/quant.h"
#include "model/packed/pack_tools.h"
#include "tensor/float16.h"

namespace cheetah {
namespace {

// Where number i of eight neighbours lies in the word, in nibbles.
constexpr std::array<int64_t, 8> kNibbleOf = {0, 4, 1, 5, 2, 6, 3, 7};

int64_t nibble_of(int64_t index) { return index / 8 * 8 + kNibbleOf[static_cast<size_t>(index % 8)]; }

uint8_t read_nibble(const std::byte* row, int64_t index) {
  const int64_t at = nibble_of(index);
  return static_cast<uint8_t>((std::to_integer<unsigned>(row[at / 2]) >> (at % 2 * 4)) & 15u);
}

void write_nibble(std::byte* row, int64_t index, unsigned value) {
  const int64_t at = nibble_of(index);
  row[at / 2] |= static_cast<std::byte>(value << (at % 2 * 4));
}

void require(bool fits, const std::string& what, const char* part, const TensorView& view) {
  if (!fits)
    throw Error(format("{}: \"{}\" is {} {}, which does not fit its other parts", what, part,
        name_of(view.dtype), view.shape.text()));
}

}  // namespace

IntMatrix unpack_awq(const AwqTensors& tensors, const std::string& what) {
  const TensorView &qweight = tensors.qweight, &qzeros = tensors.qzeros, &scales = tensors.scales;
  require(qweight.dtype == DType::kI32 && qweight.shape.rank() == 2 && qweight.shape.elements() > 0, what,
      "qweight", qweight);
  IntMatrix matrix;
  matrix.cols = qweight.rows();
  matrix.rows = qweight.cols() * 8;
  require(
      is_float(scales.dtype) && scales.shape.rank() == 2 && scales.cols() == matrix.rows && scales.rows() > 0,
      what, "scales", scales);
  matrix.groups = scales.rows();
  require(qzeros.dtype == DType::kI32 && qzeros.shape == Shape{matrix.groups, qweight.cols()}, what, "qzeros",
      qzeros);
  matrix.codes.resize(static_cast<size_t>(matrix.rows * matrix.cols));
  matrix.scales.resize(static_cast<size_t>(matrix.rows * matrix.groups));
  matrix.zeros.resize(matrix.scales.size());
  for (int64_t c = 0; c < matrix.cols; ++c)
    for (int64_t r = 0; r < matrix.rows; ++r)
      matrix.codes[static_cast<size_t>(r * matrix.cols + c)] = read_nibble(qweight.row(c), r);
  std::vector<float> row(static_cast<size_t>(matrix.rows));
  for (int64_t g = 0; g < matrix.groups; ++g) {
    dequantize_row(scales.dtype, scales.row(g), row.data(), matrix.rows);
    for (int64_t r = 0; r < matrix.rows; ++r) {
      const auto at = static_cast<size_t>(r * matrix.groups + g);
      matrix.scales[at] = row[static_cast<size_t>(r)];
      matrix.zeros[at] = read_nibble(qzeros.row(g), r);
    }
  }
  check(matrix, what);
  return matrix;
}

std::vector<OwnedTensor> pack_awq(const IntMatrix& matrix, const std::string& name) {
  const int64_t out = matrix.rows, in = matrix.cols, width = out / 2;  // bytes of a row
  CHEETAH_ASSERT(matrix.bits == 4 && out % 8 == 0 && matrix.group_of.empty(), "what this layout can hold");
  OwnedTensor qweight = zeroed(name + ".qweight", DType::kI32, {in, out / 8});
  OwnedTensor qzeros = zeroed(name + ".qzeros", DType::kI32, {matrix.groups, out / 8});
  OwnedTensor scales = zeroed(name + ".scales", DType::kF16, {matrix.groups, out});
  for (int64_t c = 0; c < in; ++c)
    for (int64_t r = 0; r < out; ++r)
      write_nibble(qweight.data.data() + c * width, r, matrix.codes[static_cast<size_t>(r * in + c)]);
  for (int64_t g = 0; g < matrix.groups; ++g)
    for (int64_t r = 0; r < out; ++r) {
      const auto at = static_cast<size_t>(r * matrix.groups + g);
      write_nibble(qzeros.data.data() + g * width, r, matrix.zeros[at]);
      store(scales, g * out + r, f32_to_f16(matrix.scales[at]));
    }
  return {std::move(qweight), std::move(qzeros), std::move(scales)};
}

}  // namespace cheetah
