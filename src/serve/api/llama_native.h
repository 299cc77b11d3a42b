// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <string>

#include "serve/api/endpoint.h"

namespace cheetah {

// GET /props and /slots of llama.cpp's server. `running`: sequences that decode now.
std::string llama_props(const ApiServices& services);
std::string llama_slots(const ApiServices& services, int64_t running);

}  // namespace cheetah
