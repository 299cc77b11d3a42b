// SPDX-License-Identifier: MIT
#include "model/packed/unpack.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <map>

#include "base/error.h"
#include "base/format.h"
#include "kernels/quant/quant.h"
#include "model/packed/awq_layout.h"
#include "model/packed/bitsandbytes.h"
#include "model/packed/compressed_layout.h"
#include "model/packed/gptq_layout.h"
#include "model/packed/quantization_config.h"

namespace cheetah {
namespace {

constexpr float kMostF16 = 65504.f;

class Unpacker {
 public:
  Unpacker(const Checkpoint& checkpoint, ThreadPool& pool)
      : from_(checkpoint.tensors()),
        what_(checkpoint.path()),
        config_(read_quantization_config(checkpoint.config(), checkpoint.path() + "/config.json")),
        pool_(pool) {}

  UnpackedTensors run() {
    result_.tensors = from_;
    for (const auto& [name, view] : from_) unpack(name);
    for (const auto& [what, count] : counts_)
      result_.notes.push_back(
          format("{} {} weights are computed with as {}", count, what.first, what.second));
    return std::move(result_);
  }

 private:
  void unpack(const std::string& name) {
    switch (config_.kind) {
      case PackedKind::kNone:
        return;
      case PackedKind::kGptq:
      case PackedKind::kAwq:
        if (name.ends_with(".qweight")) unpack_columns(name.substr(0, name.size() - 8));
        return;
      case PackedKind::kCompressed:
        if (name.ends_with(".weight_packed")) unpack_rows(name.substr(0, name.size() - 14));
        if (is_int8(name)) unpack_int8(name.substr(0, name.size() - 7));
        return;
      case PackedKind::kBitsAndBytes:
        if (!name.ends_with(".weight")) return;
        if (is_bnb4(from_, name)) unpack_bnb4(name);
        if (is_int8(name)) unpack_bnb8(name.substr(0, name.size() - 7));
        return;
    }
  }

  bool is_int8(const std::string& name) const {
    return name.ends_with(".weight") && from_.at(name).dtype == DType::kI8;
  }

  std::string where(const std::string& root) const {
    return format("{}: \"{}\"", what_, printable(root, 200));
  }

  const TensorView* find(const std::string& name) const {
    const auto at = from_.find(name);
    return at == from_.end() ? nullptr : &at->second;
  }

  const TensorView& get(const std::string& root, const char* part) const {
    if (const TensorView* view = find(root + part)) return *view;
    throw Error(format("{}: \"{}\" is missing", where(root), part + 1));
  }

  // Takes a weight's parts out of the map.
  void drop(const std::string& root, std::initializer_list<const char*> parts) {
    for (const char* part : parts) result_.tensors.erase(root + part);
  }

  void unpack_columns(const std::string& root) {
    const TensorView &qweight = get(root, ".qweight"), &zeros = get(root, ".qzeros"),
                     &scales = get(root, ".scales");
    const bool is_awq = config_.kind == PackedKind::kAwq;
    const IntMatrix matrix =
        is_awq ? unpack_awq({.qweight = qweight, .qzeros = zeros, .scales = scales}, where(root))
               : unpack_gptq({.qweight = qweight,
                                 .qzeros = zeros,
                                 .scales = scales,
                                 .g_idx = find(root + ".g_idx"),
                                 .minus_one = config_.zeros_minus_one},
                     where(root));
    drop(root, {".qweight", ".qzeros", ".scales", ".g_idx"});
    keep(root, matrix, format("{} INT{}", is_awq ? "AWQ" : "GPTQ", matrix.bits));
  }

  void unpack_rows(const std::string& root) {
    if (get(root, ".weight_packed").dtype == DType::kU8) {
      unpack_fp4(root);
      return;
    }
    const TensorView &packed = get(root, ".weight_packed"), &shape = get(root, ".weight_shape");
    const int64_t inputs = stored_shape(shape, where(root))[1];
    const auto bits =
        std::ranges::find_if(config_.bits, [&](int b) { return fits_packed(packed, inputs, b); });
    if (bits == config_.bits.end())
      throw Error(
          format("{}: \"weight_packed\" {} does not hold {} inputs in the bits that config_groups tells",
              where(root), packed.shape.text(), inputs));
    const IntMatrix matrix = unpack_compressed({.packed = packed,
                                                   .scale = get(root, ".weight_scale"),
                                                   .shape = shape,
                                                   .zero_point = find(root + ".weight_zero_point"),
                                                   .g_idx = find(root + ".weight_g_idx"),
                                                   .bits = *bits},
        where(root));
    drop(root, {".weight_packed", ".weight_scale", ".weight_shape", ".weight_zero_point", ".weight_g_idx"});
    keep(root, matrix, format("packed INT{}", matrix.bits));
  }

  void unpack_fp4(const std::string& root) {
    const Fp4Tensors tensors{.packed = get(root, ".weight_packed"),
        .scale = get(root, ".weight_scale"),
        .global_scale = find(root + ".weight_global_scale")};
    check_fp4(tensors, where(root));
    drop(root, {".weight_packed", ".weight_scale", ".weight_global_scale", ".input_global_scale"});
    const int64_t rows = tensors.packed.rows(), cols = tensors.packed.cols() * 2;
    if (tensors.global_scale) {
      keep_rows(
          root, {rows, cols}, "NVFP4", [&](int64_t r, float* to) { dequantize_fp4_row(tensors, r, to); });
      return;
    }
    keep_blocks(root, {rows, cols}, DType::kMXFP4, "MXFP4",
        [&](int64_t r, std::byte* to) { mxfp4_blocks(tensors, r, to); });
  }

  void unpack_int8(const std::string& root) {
    const IntMatrix matrix = read_int8(
        get(root, ".weight"), get(root, ".weight_scale"), find(root + ".weight_zero_point"), where(root));
    drop(root, {".weight", ".weight_scale", ".weight_zero_point", ".input_scale", ".input_zero_point"});
    keep(root, matrix, "INT8");
  }

  void unpack_bnb8(const std::string& root) {
    const IntMatrix matrix = read_bnb8(get(root, ".weight"), get(root, ".SCB"), where(root));
    drop(root, {".weight", ".SCB", ".weight_format"});
    keep(root, matrix, "bitsandbytes INT8");
  }

  void unpack_bnb4(const std::string& name) {
    const std::string root = name.substr(0, name.size() - 7);
    const Nf4Matrix matrix = read_bnb4(from_, name, where(root));
    for (const std::string& part : bnb4_parts(from_, name)) result_.tensors.erase(part);
    keep_rows(root, matrix.shape, "bitsandbytes 4-bit",
        [&](int64_t r, float* to) { dequantize_row(matrix, r, to); });
  }

  void keep(const std::string& root, const IntMatrix& matrix, const std::string& kind) {
    const Shape shape{matrix.rows, matrix.cols};
    if (const auto dtype = exact_block_type(matrix)) {
      keep_blocks(
          root, shape, *dtype, kind, [&](int64_t r, std::byte* to) { to_blocks(matrix, *dtype, r, to); });
      return;
    }
    keep_rows(root, shape, kind, [&](int64_t r, float* to) { dequantize_row(matrix, r, to); });
  }

  void keep_blocks(const std::string& root, const Shape& shape, DType dtype, const std::string& kind,
      const std::function<void(int64_t, std::byte*)>& fill) {
    const int64_t stride = row_bytes(dtype, shape[1]);
    std::byte* data = result_.owned.take(shape[0] * stride);
    pool_.parallel_for(shape[0], 16, [&](int64_t begin, int64_t end, int) {
      for (int64_t r = begin; r < end; ++r) fill(r, data + r * stride);
    });
    put(root, {.dtype = dtype, .shape = shape, .data = data}, kind);
  }

  void keep_rows(const std::string& root, const Shape& shape, const std::string& kind,
      const std::function<void(int64_t, float*)>& fill) {
    std::byte* data = result_.owned.take(shape[0] * shape[1] * 2);
    std::atomic<bool> beyond{false};
    const auto write = [&](DType dtype) {
      pool_.parallel_for(shape[0], 16, [&](int64_t begin, int64_t end, int) {
        std::vector<float> row(static_cast<size_t>(shape[1]));
        for (int64_t r = begin; r < end; ++r) {
          fill(r, row.data());
          if (std::ranges::any_of(row, [](float x) { return std::fabs(x) > kMostF16; })) beyond = true;
          quantize_row(dtype, row.data(), data + r * shape[1] * 2, shape[1]);
        }
      });
    };
    write(DType::kF16);
    if (beyond) write(DType::kBF16);
    put(root, {.dtype = beyond ? DType::kBF16 : DType::kF16, .shape = shape, .data = data}, kind);
  }

  void put(const std::string& root, const TensorView& view, const std::string& kind) {
    if (!result_.tensors.emplace(root + ".weight", view).second)
      throw Error(format("{}: is there packed and plain", where(root)));
    ++counts_[{kind, std::string(name_of(view.dtype))}];
  }

  const TensorMap& from_;
  std::string what_;
  QuantizationConfig config_;
  ThreadPool& pool_;
  UnpackedTensors result_;
  std::map<std::pair<std::string, std::string>, int64_t> counts_;
};

}  // namespace

UnpackedTensors unpack_tensors(const Checkpoint& checkpoint, ThreadPool& pool) {
  return Unpacker(checkpoint, pool).run();
}

}  // namespace cheetah
