// SPDX-License-Identifier: MIT
#include <cmath>

#include "kernels/rope/rope.h"

namespace cheetah {

void rope_reference(const RopeArgs& args) {
  const auto half = static_cast<int64_t>(args.inv_freq.size());
  const bool halves = args.layout == RopeLayout::kHalves;
  for (size_t token = 0; token < args.positions.size(); ++token) {
    for (int64_t head = 0; head < args.heads; ++head) {
      float* x = args.x + static_cast<int64_t>(token) * args.token_stride + head * args.head_stride;
      for (int64_t i = 0; i < half; ++i) {
        // The product is rounded to float as the models' training code did: at position 100,000 that moves
        // the angle far more than any error of the cosine.
        const float angle = static_cast<float>(args.positions[token]) * args.inv_freq[static_cast<size_t>(i)];
        const double cosine = std::cos(static_cast<double>(angle)) * args.magnitude;
        const double sine = std::sin(static_cast<double>(angle)) * args.magnitude;
        float& first = halves ? x[i] : x[2 * i];
        float& second = halves ? x[i + half] : x[2 * i + 1];
        const double a = first, b = second;
        first = static_cast<float>(a * cosine - b * sine);
        second = static_cast<float>(b * cosine + a * sine);
      }
    }
  }
}

}  // namespace cheetah
