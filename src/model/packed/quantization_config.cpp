// SPDX-License-Identifier: MIT
#include "model/packed/quantization_config.h"

#include <array>

#include "base/error.h"
#include "base/format.h"

namespace cheetah {
namespace {

constexpr const char* kMethods =
    "\"fp8\", \"fbgemm_fp8\", \"gptq\", \"awq\", \"compressed-tensors\", \"bitsandbytes\" or \"mxfp4\"";

[[noreturn]] void reject(const JsonFields& fields, std::string_view name, const std::string& rule) {
  const Json* value = fields.find(name);
  throw Error(format("{}: field \"{}\" is {}, expected {}", fields.what(), name,
      value ? printable(dump_json(*value)) : "absent", rule));
}

QuantizationConfig read_gptq(const JsonFields& fields) {
  const int64_t bits = fields.integer("bits", 2, 8);
  if (bits != 2 && bits != 3 && bits != 4 && bits != 8) reject(fields, "bits", "2, 3, 4 or 8");
  const std::string version = fields.string_or("checkpoint_format", "gptq");
  if (version != "gptq" && version != "gptq_v2")
    reject(fields, "checkpoint_format", "\"gptq\" or \"gptq_v2\"");
  return {.kind = PackedKind::kGptq, .zeros_minus_one = version == "gptq", .bits = {static_cast<int>(bits)}};
}

QuantizationConfig read_awq(const JsonFields& fields) {
  const Json* bits = fields.find("bits") ? fields.find("bits") : fields.find("w_bit");
  if (!bits || *bits != 4) reject(fields, "bits", "4");
  if (fields.string_or("version", "gemm") != "gemm" && fields.string_or("version", "gemm") != "GEMM")
    reject(fields, "version", "\"gemm\"");
  return {.kind = PackedKind::kAwq, .zeros_minus_one = false, .bits = {4}};
}

int weight_bits(const Json& group, const std::string& what) {
  if (!group.is_object()) throw Error(format("{}: a group is no object", what));
  const auto weights = group.find("weights");
  if (weights == group.end() || !weights->is_object())
    throw Error(format("{}: field \"weights\" of a group is missing", what));
  return static_cast<int>(JsonFields(*weights, what + ": weights").integer_or("num_bits", 8, 1, 16));
}

QuantizationConfig read_compressed(const JsonFields& fields) {
  constexpr std::array kForms = {"float-quantized", "naive-quantized", "int-quantized", "pack-quantized",
      "mxfp4-pack-quantized", "nvfp4-pack-quantized", "mixed-precision"};
  const std::string form = fields.string_or("format", "");
  bool known = false;
  for (const char* one : kForms) known = known || form == one;
  if (!known)
    reject(fields, "format",
        "\"float-quantized\", \"int-quantized\", \"pack-quantized\", \"mxfp4-pack-quantized\" or "
        "\"nvfp4-pack-quantized\"");
  const Json* sparsity = fields.find("sparsity_config");
  if (sparsity && sparsity->is_object() && sparsity->value("format", Json("dense")) != "dense")
    throw Error(format("{}: sparsity_config: format {} is not read: expected dense weights", fields.what(),
        printable(dump_json(sparsity->value("format", Json())))));
  QuantizationConfig config{.kind = PackedKind::kCompressed, .zeros_minus_one = false, .bits = {}};
  const Json* groups = fields.find("config_groups");
  if (!groups || !groups->is_object()) reject(fields, "config_groups", "an object of groups");
  for (const Json& group : *groups) config.bits.push_back(weight_bits(group, fields.what()));
  return config;
}

}  // namespace

QuantizationConfig read_quantization_config(const Json& config, const std::string& what) {
  const auto at = config.find("quantization_config");
  if (at == config.end() || at->is_null()) return {};
  if (!at->is_object())
    throw Error(format("{}: field \"quantization_config\" is {}, expected an object", what, at->type_name()));
  const JsonFields fields(*at, what + ": quantization_config");
  const std::string method = fields.string_or("quant_method", "");
  if (method == "fp8" || method == "fbgemm_fp8" || method == "mxfp4") return {};
  if (method == "gptq") return read_gptq(fields);
  if (method == "awq") return read_awq(fields);
  if (method == "compressed-tensors") return read_compressed(fields);
  if (method == "bitsandbytes")
    return {.kind = PackedKind::kBitsAndBytes, .zeros_minus_one = false, .bits = {}};
  reject(fields, "quant_method", kMethods);
}

}  // namespace cheetah
