// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace cheetah {

// What calibration knows of a layer's inputs: sums over the tokens it saw.
struct Moments {
  int64_t width = 0;
  int64_t tokens = 0;
  std::vector<float> products = {};    // [width, width]: of each pair of inputs
  std::vector<float> magnitudes = {};  // [width]: of each input's magnitude

  bool seen() const { return tokens > 0; }
  // The mean of each input's square: the diagonal.
  std::vector<float> importance() const;
};

}  // namespace cheetah
