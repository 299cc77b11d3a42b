// SPDX-License-Identifier: MIT
#include "quantize/preparation.h"

namespace cheetah {

void TensorEdit::apply(std::vector<float>& numbers, int64_t width) const {
  for (size_t i = 0; i < numbers.size(); ++i) {
    const size_t row = i / static_cast<size_t>(width), col = i % static_cast<size_t>(width);
    float scale = 1;
    if (!rows.empty()) scale *= rows[row];
    if (!cols.empty()) scale *= cols[col];
    numbers[i] = (numbers[i] + offset) * scale - offset;
  }
}

}  // namespace cheetah
