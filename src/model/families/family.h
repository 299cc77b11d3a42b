// SPDX-License-Identifier: MIT
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "model/families/config.h"

namespace cheetah {

// One Hugging Face model_type: how its config.json becomes traits and weight names.
struct Family {
  std::string_view model_type;
  FamilyModel (*read)(const Config& config);
};

std::span<const Family> families();

// Throws Error for an unknown model_type, listing the known ones, and for any field that breaks its rule.
FamilyModel read_family(const Json& config, const std::string& what);

FamilyModel read_llama(const Config& config);
FamilyModel read_mistral(const Config& config);
FamilyModel read_mixtral(const Config& config);
FamilyModel read_qwen2(const Config& config);
FamilyModel read_qwen3(const Config& config);
FamilyModel read_qwen3_moe(const Config& config);
FamilyModel read_deepseek_v2(const Config& config);
FamilyModel read_deepseek_v3(const Config& config);
FamilyModel read_gemma2(const Config& config);
FamilyModel read_gemma3_text(const Config& config);
FamilyModel read_gemma3(const Config& config);
FamilyModel read_phi3(const Config& config);
FamilyModel read_olmo2(const Config& config);
FamilyModel read_granite(const Config& config);
FamilyModel read_gpt_oss(const Config& config);
FamilyModel read_gpt2(const Config& config);
FamilyModel read_glm4_moe(const Config& config);
FamilyModel read_cohere2(const Config& config);
FamilyModel read_olmoe(const Config& config);
FamilyModel read_smollm3(const Config& config);
FamilyModel read_starcoder2(const Config& config);
FamilyModel read_gpt_neox(const Config& config);

}  // namespace cheetah
