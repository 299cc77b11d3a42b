#include "model/families/family.h"

#include <array>

#include "base/error.h"
#include "base/format.h"

namespace cheetah {
namespace {

constexpr std::array kFamilies = {
    Family{"llama", read_llama},
    Family{"mistral", read_mistral},
    Family{"mixtral", read_mixtral},
    Family{"qwen2", read_qwen2},
    Family{"qwen3", read_qwen3},
    Family{"qwen3_moe", read_qwen3_moe},
    Family{"deepseek_v2", read_deepseek_v2},
    Family{"deepseek_v3", read_deepseek_v3},
    Family{"gemma2", read_gemma2},
    Family{"gemma3_text", read_gemma3_text},
    Family{"gemma3", read_gemma3},
    Family{"phi3", read_phi3},
    Family{"olmo2", read_olmo2},
    Family{"granite", read_granite},
    Family{"gpt_oss", read_gpt_oss},
    Family{"gpt2", read_gpt2},
};

std::string known_families() {
  std::string known;
  for (const Family& family : kFamilies)
    known += (known.empty() ? "" : ", ") + std::string(family.model_type);
  return known;
}

// Only forms the loader decodes; anything else would be read as garbage.
void check_quantization(const Config& config, const FamilyModel& model) {
  const Json* quantization = config.find("quantization_config");
  if (!quantization) return;
  const Config fields(*quantization, config.what() + ": quantization_config");
  const std::string method = fields.string_or("quant_method", "");
  if (method == "mxfp4" && model.names.gpt_oss_experts) return;
  if (method == "fp8" || method == "fbgemm_fp8") return;
  if (method == "compressed-tensors") {
    if (fields.string_or("format", "") == "float-quantized") return;
    fields.reject("format", "\"float-quantized\" (FP8)");
  }
  fields.reject("quant_method",
                "\"fp8\", \"fbgemm_fp8\", \"compressed-tensors\" in FP8, or \"mxfp4\" for gpt_oss");
}

}  // namespace

std::span<const Family> families() { return kFamilies; }

FamilyModel read_family(const Json& config, const std::string& what) {
  const Config fields(config, what);
  const std::string wanted = fields.string_or("model_type", "");
  if (wanted.empty()) throw Error(format("{}: field \"model_type\" is missing", what));
  for (const Family& family : kFamilies) {
    if (family.model_type != wanted) continue;
    FamilyModel model = family.read(fields);
    model.traits.family = wanted;
    check_quantization(fields, model);
    return model;
  }
  throw Error(format("{}: unsupported architecture \"{}\"; supported: {}", what, printable(wanted),
                     known_families()));
}

}  // namespace cheetah
