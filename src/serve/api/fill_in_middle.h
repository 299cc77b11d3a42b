// SPDX-License-Identifier: MIT
#pragma once
// Text before and after a gap, as models trained to fill one read it.
#include <string>
#include <utility>
#include <vector>

#include "serve/api/endpoint.h"

namespace cheetah {

struct MiddleGap {
  std::string prefix, suffix;
  std::vector<std::pair<std::string, std::string>> files = {};  // name and text: of the same repository
};

// Refuses, naming `param`, where the model has no tokens for it.
std::vector<int32_t> fill_in_middle(
    const MiddleGap& gap, const ApiServices& services, const std::string& param);

}  // namespace cheetah
