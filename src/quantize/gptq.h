// SPDX-License-Identifier: MIT
#pragma once
// GPTQ: numbers are rounded one input after another, and what each rounding gets wrong is made up for by the
// inputs still to come, as far as calibration's inputs go together.
#include "quantize/integer_grid.h"
#include "quantize/moments.h"

namespace cheetah {

struct GptqOptions {
  double damp = 0.01;       // of the mean diagonal, added to it
  bool by_activity = true;  // the inputs with the largest squares first; the groups stay where they are
};

IntMatrix round_gptq(std::vector<float> w, int64_t rows, const GridRules& rules, const Moments& moments,
    const GptqOptions& options, ThreadPool& pool);

// The upper triangle U with U^T U = inverse of a symmetric matrix [n, n], in place. Throws Error when it is
// not positive.
void invert_to_upper(std::vector<double>& matrix, int64_t n, ThreadPool& pool);

}  // namespace cheetah
