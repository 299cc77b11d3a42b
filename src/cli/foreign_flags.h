// SPDX-License-Identifier: MIT
#pragma once
#include <optional>
#include <string>

namespace cheetah {

// What a flag of vLLM, SGLang, llama.cpp, Ollama or TensorRT-LLM is called here, as a sentence; nullopt: not known.
std::optional<std::string> foreign_flag(const std::string& flag);

}  // namespace cheetah
