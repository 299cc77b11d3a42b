// SPDX-License-Identifier: MIT
#include "model/packed/bitsandbytes.h"

#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "kernels/quant/quant.h"
#include "model/packed/pack_tools.h"

namespace cheetah {
namespace {

constexpr const char* kState = ".quant_state.bitsandbytes__";

const TensorView& part_of(const TensorMap& tensors, const std::string& name, const std::string& what) {
  const auto at = tensors.find(name);
  if (at == tensors.end()) throw Error(format("{}: \"{}\" is missing", what, printable(name, 200)));
  return at->second;
}

std::vector<float> floats_of(const TensorMap& tensors, const std::string& name, const std::string& what) {
  const TensorView& view = part_of(tensors, name, what);
  if (!is_float(view.dtype))
    throw Error(format("{}: \"{}\" is {}, expected F32", what, printable(name, 200), name_of(view.dtype)));
  std::vector<float> values(static_cast<size_t>(view.shape.elements()));
  dequantize_row(view.dtype, view.data, values.data(), std::ssize(values));
  for (const float value : values)
    if (!std::isfinite(value))
      throw Error(format("{}: \"{}\" holds {}, expected finite numbers", what, printable(name, 200), value));
  return values;
}

std::string state_name(const TensorMap& tensors, const std::string& name) {
  for (const char* kind : {"nf4", "fp4"})
    if (tensors.contains(name + kState + kind)) return name + kState + kind;
  return "";
}

Json read_state(const TensorMap& tensors, const std::string& name, const std::string& what) {
  const TensorView& view = tensors.find(state_name(tensors, name))->second;
  if (view.dtype != DType::kU8)
    throw Error(format("{}: its quant_state is {}, expected U8", what, name_of(view.dtype)));
  const std::string_view text(reinterpret_cast<const char*>(view.data), static_cast<size_t>(view.bytes()));
  return parse_json(text, what + ": quant_state", {.max_bytes = 1 << 16, .max_depth = 4});
}

Shape shape_of(const Json& state, const std::string& what) {
  constexpr int64_t kMostSide = int64_t{1} << 26;
  const auto at = state.find("shape");
  const auto valid = [&](const Json& side) {
    return side.is_number_integer() && side >= 1 && side <= kMostSide;
  };
  if (at == state.end() || !at->is_array() || at->size() != 2 || !valid((*at)[0]) || !valid((*at)[1]))
    throw Error(format("{}: quant_state: field \"shape\" must be two sizes up to {}", what, kMostSide));
  return {(*at)[0].get<int64_t>(), (*at)[1].get<int64_t>()};
}

// Scales that were themselves quantized: 8-bit codes into a table, blocks of their own, an offset.
std::vector<float> nested_scales(
    const TensorMap& tensors, const std::string& name, const JsonFields& state, const TensorView& codes) {
  const std::string& what = state.what();
  const std::vector<float> table = floats_of(tensors, name + ".nested_quant_map", what);
  const std::vector<float> largest = floats_of(tensors, name + ".nested_absmax", what);
  const int64_t block = state.integer_or("nested_blocksize", 256, 1, 1 << 20);
  const auto offset = static_cast<float>(state.number_or("nested_offset", 0));
  const int64_t count = codes.shape.elements();
  if (table.size() != 256 || std::ssize(largest) != (count + block - 1) / block)
    throw Error(format("{}: its nested scales do not fit {} blocks", what, count));
  std::vector<float> scales(static_cast<size_t>(count));
  for (size_t i = 0; i < scales.size(); ++i)
    scales[i] =
        table[std::to_integer<size_t>(codes.data[i])] * largest[i / static_cast<size_t>(block)] + offset;
  return scales;
}

}  // namespace

bool is_bnb4(const TensorMap& tensors, const std::string& name) { return !state_name(tensors, name).empty(); }

std::vector<std::string> bnb4_parts(const TensorMap& tensors, const std::string& name) {
  std::vector<std::string> parts = {name};
  for (const char* part : {".absmax", ".quant_map", ".nested_absmax", ".nested_quant_map"})
    if (tensors.contains(name + part)) parts.push_back(name + part);
  parts.push_back(state_name(tensors, name));
  return parts;
}

Nf4Matrix read_bnb4(const TensorMap& tensors, const std::string& name, const std::string& what) {
  const Json state = read_state(tensors, name, what);
  const JsonFields fields(state, what);
  Nf4Matrix matrix{.shape = shape_of(state, what),
      .block = fields.integer_or("blocksize", 64, 1, 1 << 20),
      .table = floats_of(tensors, name + ".quant_map", what),
      .absmax = {},
      .codes = nullptr};
  const TensorView& packed = part_of(tensors, name, what);
  const TensorView& scales = part_of(tensors, name + ".absmax", what);
  const int64_t count = matrix.shape.elements();
  if (packed.dtype != DType::kU8 || packed.shape.elements() != (count + 1) / 2)
    throw Error(format("{}: {} {} does not hold the {} numbers of {}", what, name_of(packed.dtype),
        packed.shape.text(), count, matrix.shape.text()));
  if (matrix.table.size() != 16)
    throw Error(format("{}: its table has {} values, expected 16", what, matrix.table.size()));
  matrix.absmax = scales.dtype == DType::kU8 ? nested_scales(tensors, name, fields, scales)
                                             : floats_of(tensors, name + ".absmax", what);
  if (std::ssize(matrix.absmax) != (count + matrix.block - 1) / matrix.block)
    throw Error(format("{}: {} scales for {} blocks of {}", what, matrix.absmax.size(),
        (count + matrix.block - 1) / matrix.block, matrix.block));
  matrix.codes = packed.data;
  return matrix;
}

void dequantize_row(const Nf4Matrix& matrix, int64_t row, float* to) {
  const int64_t cols = matrix.shape[1];
  for (int64_t c = 0; c < cols; ++c) {
    const int64_t at = row * cols + c;
    const unsigned both = std::to_integer<unsigned>(matrix.codes[at / 2]);
    const unsigned code = at % 2 == 0 ? both >> 4 : both & 15u;
    to[c] = matrix.table[code] * matrix.absmax[static_cast<size_t>(at / matrix.block)];
  }
}

IntMatrix read_bnb8(const TensorView& weight, const TensorView& largest, const std::string& what) {
  if (weight.dtype != DType::kI8 || weight.shape.rank() != 2 || weight.shape.elements() == 0 ||
      !is_float(largest.dtype) || largest.shape.elements() != weight.rows())
    throw Error(format("{}: {} {} and SCB {} do not fit each other", what, name_of(weight.dtype),
        weight.shape.text(), largest.shape.text()));
  IntMatrix matrix{.rows = weight.rows(), .cols = weight.cols(), .bits = 8};
  matrix.codes.resize(static_cast<size_t>(matrix.rows * matrix.cols));
  for (size_t i = 0; i < matrix.codes.size(); ++i)
    matrix.codes[i] = static_cast<uint8_t>(std::to_integer<unsigned>(weight.data[i]) ^ 0x80u);
  matrix.scales.resize(static_cast<size_t>(matrix.rows));
  dequantize_row(largest.dtype, largest.data, matrix.scales.data(), matrix.rows);
  for (float& scale : matrix.scales) scale /= 127;
  matrix.zeros.assign(matrix.scales.size(), 128);
  check(matrix, what);
  return matrix;
}

}  // namespace cheetah
