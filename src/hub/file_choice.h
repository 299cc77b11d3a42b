// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <vector>

#include "hub/repository.h"
#include "model/files/hub_cache.h"

namespace cheetah::hub {

// The files that make the model the reference names: one GGUF file with all its parts, or the safetensors files with what
// stands beside them. Throws Error that lists what there is.
std::vector<RepositoryFile> choose_files(const Repository& repository, const HubReference& reference);

// "Q8_0" of "model-Q8_0.gguf", "Q4_K_M" of "x.Q4_K_M-00001-of-00002.gguf"; "" when the name has none.
std::string quantization_of(const std::string& file_name);

}  // namespace cheetah::hub
