// SPDX-License-Identifier: MIT
#include "quantize/linear_encoder.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "model/packed/awq_layout.h"
#include "model/packed/bit_rows.h"
#include "model/packed/compressed_layout.h"
#include "model/packed/gptq_layout.h"
#include "quantize/float_codes.h"
#include "quantize/gptq.h"

namespace cheetah {
namespace {

constexpr int64_t kAllInputs = int64_t{1} << 40;

bool divides_all(const SourceModel& source, int64_t group) {
  return std::ranges::all_of(
      source.linears(), [&](const LinearTensor& linear) { return linear.cols % group == 0; });
}

int64_t choose_group(const SourceModel& source, const TargetFormat& format, int64_t asked) {
  if (format.layout == Layout::kMxfp4) return 32;
  if (format.layout == Layout::kNvfp4) return 16;
  if (!format.is_integer() || format.layout == Layout::kInt8) return kAllInputs;
  if (asked > 0) {
    for (const LinearTensor& linear : source.linears())
      if (linear.cols % asked != 0)
        throw UsageError(
            cheetah::format("--group {}: \"{}\" has {} inputs, which are no whole number of such groups",
                asked, linear.name, linear.cols));
    return asked;
  }
  for (const int64_t group : {128, 64, 32, 16})
    if (divides_all(source, group)) return group;
  throw Error(cheetah::format(
      "{}: no group of 128, 64, 32 or 16 inputs divides every layer: quantize to a format without groups",
      source.path()));
}

// BF16 models keep BF16 scales, as their other numbers are.
DType scale_type_of(const SourceModel& source, const TargetFormat& format) {
  if (format.layout == Layout::kGptq || format.layout == Layout::kAwq) return DType::kF16;
  for (const char* field : {"torch_dtype", "dtype"}) {
    const auto at = source.checkpoint().config().find(field);
    if (at != source.checkpoint().config().end() && at->is_string())
      return at->get<std::string>() == "bfloat16"  ? DType::kBF16
             : at->get<std::string>() == "float16" ? DType::kF16
                                                   : DType::kF32;
  }
  return DType::kBF16;
}

}  // namespace

LinearEncoder::LinearEncoder(const SourceModel& source, const TargetFormat& format, int64_t group)
    : source_(source),
      format_(format),
      group_(choose_group(source, format, group)),
      scale_type_(scale_type_of(source, format)) {}

GridRules LinearEncoder::rules() const {
  return {.bits = format_.bits,
      .group = group_,
      .symmetric = format_.symmetric,
      .scale_type = scale_type_,
      .search = format_.is_calibrated()};
}

bool LinearEncoder::fits(const LinearTensor& linear) const {
  switch (format_.layout) {
    case Layout::kGptq:
      return linear.cols * format_.bits % 32 == 0 && linear.rows * format_.bits % 32 == 0;
    case Layout::kAwq:
      return linear.rows % 8 == 0;
    case Layout::kMxfp4:
    case Layout::kNvfp4:
      return linear.cols % group_ == 0;
    default:
      return true;
  }
}

std::vector<PlannedTensor> LinearEncoder::plan(const LinearTensor& linear) const {
  const std::string root = linear.name.substr(0, linear.name.size() - 7);
  const int64_t rows = linear.rows, cols = linear.cols, groups = cols / std::min(group_, cols);
  const auto across = [](int64_t size) { return (size + kFp8Block - 1) / kFp8Block; };
  switch (format_.layout) {
    case Layout::kPacked:
      return {{root + ".weight_packed", DType::kI32,
                  {rows, (cols + 32 / format_.bits - 1) / (32 / format_.bits)}},
          {root + ".weight_scale", scale_type_, {rows, groups}}, {root + ".weight_shape", DType::kI64, {2}}};
    case Layout::kInt8:
      return {{linear.name, DType::kI8, {rows, cols}}, {root + ".weight_scale", scale_type_, {rows, groups}}};
    case Layout::kFp8:
      return {{linear.name, DType::kF8E4M3, {rows, cols}},
          {root + ".weight_scale", DType::kF32, format_.per_tensor ? Shape{1} : Shape{rows, 1}}};
    case Layout::kFp8Block:
      return {{linear.name, DType::kF8E4M3, {rows, cols}},
          {root + ".weight_scale_inv", DType::kF32, {across(rows), across(cols)}}};
    case Layout::kMxfp4:
      return {{root + ".weight_packed", DType::kU8, {rows, cols / 2}},
          {root + ".weight_scale", DType::kU8, {rows, groups}}};
    case Layout::kNvfp4:
      return {{root + ".weight_packed", DType::kU8, {rows, cols / 2}},
          {root + ".weight_scale", DType::kF8E4M3, {rows, groups}},
          {root + ".weight_global_scale", DType::kF32, {1}}};
    case Layout::kGptq:
      return {{root + ".qweight", DType::kI32, {words_for(cols, format_.bits), rows}},
          {root + ".qzeros", DType::kI32, {groups, words_for(rows, format_.bits)}},
          {root + ".scales", DType::kF16, {groups, rows}}, {root + ".g_idx", DType::kI32, {cols}}};
    case Layout::kAwq:
      return {{root + ".qweight", DType::kI32, {cols, rows / 8}},
          {root + ".qzeros", DType::kI32, {groups, rows / 8}},
          {root + ".scales", DType::kF16, {groups, rows}}};
    case Layout::kPlain:
    case Layout::kGguf:
      break;
  }
  return {{linear.name, format_.dtype, {rows, cols}}};
}

IntMatrix LinearEncoder::round(
    const LinearTensor& linear, std::vector<float> numbers, const Moments* moments) const {
  const bool calibrated = moments && moments->seen();
  if (calibrated && format_.rounding == Rounding::kGptq)
    return round_gptq(std::move(numbers), linear.rows, rules(), *moments, {}, source_.pool());
  const std::vector<float> importance = calibrated ? moments->importance() : std::vector<float>();
  return round_to_nearest({.data = numbers.data(), .rows = linear.rows, .cols = linear.cols}, rules(),
      importance, source_.pool());
}

std::vector<OwnedTensor> LinearEncoder::encode(
    const LinearTensor& linear, std::vector<float> numbers, const Moments* moments) const {
  const std::string root = linear.name.substr(0, linear.name.size() - 7);
  const MatrixRows w{.data = numbers.data(), .rows = linear.rows, .cols = linear.cols};
  switch (format_.layout) {
    case Layout::kFp8:
      return pack_fp8(w, root, format_.per_tensor, source_.pool());
    case Layout::kFp8Block:
      return pack_fp8_blocks(w, root, source_.pool());
    case Layout::kMxfp4:
      return pack_mxfp4(w, root, source_.pool());
    case Layout::kNvfp4:
      return pack_nvfp4(w, root, source_.pool());
    case Layout::kPacked:
      return pack_compressed(round(linear, std::move(numbers), moments), root, scale_type_);
    case Layout::kInt8:
      return pack_int8(round(linear, std::move(numbers), moments), root, scale_type_);
    case Layout::kGptq:
      return pack_gptq(round(linear, std::move(numbers), moments), root);
    case Layout::kAwq:
      return pack_awq(round(linear, std::move(numbers), moments), root);
    case Layout::kPlain:
    case Layout::kGguf:
      break;
  }
  throw Error(format("{}: no layer is encoded for --to {}", source_.path(), format_.name));
}

// Matrices of the layers that keep their type: routers, and layers whose sizes the layout cannot hold.
Json LinearEncoder::ignored() const {
  Json names = Json::array({"lm_head"});
  for (const auto& [name, view] : source_.tensors()) {
    if (!name.ends_with(".weight") || view.shape.rank() != 2 || source_.layer_of(name) < 0) continue;
    const LinearTensor* linear = source_.linear(name);
    if (!linear || !fits(*linear)) names.push_back(name.substr(0, name.size() - 7));
  }
  return names;
}

Json LinearEncoder::compressed_config() const {
  Json weights = {{"num_bits", format_.bits}, {"type", "int"}, {"symmetric", true}, {"strategy", "group"},
      {"group_size", group_}, {"dynamic", false}, {"actorder", nullptr}, {"block_structure", nullptr},
      {"observer", "minmax"}, {"observer_kwargs", Json::object()}};
  Json activations;
  std::string form = "pack-quantized";
  const auto by_token = [&](const char* type) {
    activations = {{"num_bits", 8}, {"type", type}, {"symmetric", true}, {"strategy", "token"},
        {"group_size", nullptr}, {"dynamic", true}, {"actorder", nullptr}, {"block_structure", nullptr},
        {"observer", nullptr}, {"observer_kwargs", Json::object()}};
  };
  switch (format_.layout) {
    case Layout::kInt8:
      form = "int-quantized";
      weights["strategy"] = "channel", weights["group_size"] = nullptr;
      by_token("int");
      break;
    case Layout::kFp8:
      form = "float-quantized";
      weights["type"] = "float", weights["group_size"] = nullptr;
      weights["strategy"] = format_.per_tensor ? "tensor" : "channel";
      by_token("float");
      break;
    case Layout::kMxfp4:
      form = "mxfp4-pack-quantized";
      weights["type"] = "float";
      break;
    case Layout::kNvfp4:
      form = "nvfp4-pack-quantized";
      weights["type"] = "float", weights["strategy"] = "tensor_group";
      break;
    default:
      break;
  }
  return {{"quant_method", "compressed-tensors"}, {"format", form}, {"quantization_status", "compressed"},
      {"ignore", ignored()}, {"kv_cache_scheme", nullptr}, {"global_compression_ratio", nullptr},
      {"config_groups",
          {{"group_0", {{"targets", {"Linear"}}, {"weights", weights}, {"input_activations", activations},
                           {"output_activations", nullptr}}}}}};
}

Json LinearEncoder::quantization_config() const {
  switch (format_.layout) {
    case Layout::kPlain:
    case Layout::kGguf:
      return nullptr;
    case Layout::kFp8Block:
      return {{"quant_method", "fp8"}, {"fmt", "e4m3"}, {"activation_scheme", "dynamic"},
          {"weight_block_size", {kFp8Block, kFp8Block}}, {"modules_to_not_convert", ignored()},
          {"ignored_layers", ignored()}};
    case Layout::kGptq:
      return {{"quant_method", "gptq"}, {"bits", format_.bits}, {"group_size", group_}, {"desc_act", false},
          {"sym", format_.symmetric}, {"lm_head", false}, {"static_groups", true},
          {"checkpoint_format", "gptq"}, {"meta", {{"quantizer", "cheetah"}}}};
    case Layout::kAwq:
      return {{"quant_method", "awq"}, {"bits", format_.bits}, {"group_size", group_}, {"zero_point", true},
          {"version", "gemm"}, {"modules_to_not_convert", ignored()}};
    default:
      return compressed_config();
  }
}

}  // namespace cheetah
