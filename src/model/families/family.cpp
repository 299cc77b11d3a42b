// SPDX-License-Identifier: MIT
#include "model/families/family.h"

#include <array>

#include "base/error.h"
#include "base/format.h"
#include "model/packed/quantization_config.h"

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
    Family{"glm4_moe", read_glm4_moe},
    Family{"cohere2", read_cohere2},
    Family{"olmoe", read_olmoe},
    Family{"smollm3", read_smollm3},
    Family{"starcoder2", read_starcoder2},
    Family{"gpt_neox", read_gpt_neox},
};

std::string known_families() {
  std::string known;
  for (const Family& family : kFamilies)
    known += (known.empty() ? "" : ", ") + std::string(family.model_type);
  return known;
}

// MXFP4 is a form of gpt_oss's experts; what other methods there are, the config's reader knows.
void check_quantization(const Json& config, const std::string& what, const FamilyModel& model) {
  read_quantization_config(config, what);
  const auto quantization = config.find("quantization_config");
  if (quantization == config.end() || !quantization->is_object() || model.names.gpt_oss_experts) return;
  const Config fields(*quantization, what + ": quantization_config");
  if (fields.string_or("quant_method", "") == "mxfp4")
    fields.reject("quant_method", "another method: \"mxfp4\" is for gpt_oss");
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
    check_quantization(config, what, model);
    return model;
  }
  throw Error(format(
      "{}: unsupported architecture \"{}\"; supported: {}", what, printable(wanted), known_families()));
}

}  // namespace cheetah
