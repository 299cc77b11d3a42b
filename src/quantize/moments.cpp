// SPDX-License-Identifier: MIT
#include "quantize/moments.h"

namespace cheetah {

std::vector<float> Moments::importance() const {
  std::vector<float> squares(static_cast<size_t>(width));
  for (int64_t i = 0; i < width; ++i)
    squares[static_cast<size_t>(i)] =
        products[static_cast<size_t>(i * width + i)] / static_cast<float>(tokens > 0 ? tokens : 1);
  return squares;
}

}  // namespace cheetah
