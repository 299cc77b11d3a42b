// SPDX-License-Identifier: MIT
#pragma once
#include <string_view>

#include "base/text.h"

namespace cheetah::doctor {

// The known name fewest edits away, or "" when none is near enough to be meant.
template <size_t N>
std::string_view nearest(std::string_view name, const std::string_view (&known)[N]) {
  std::string_view best;
  int64_t distance = 5;
  for (const std::string_view candidate : known) {
    const int64_t apart = edit_distance(name.substr(0, 64), candidate);
    if (apart < distance) {
      distance = apart;
      best = candidate;
    }
  }
  return best;
}

}  // namespace cheetah::doctor
