// SPDX-License-Identifier: MIT
#pragma once
#include <map>
#include <string>
#include <vector>

#include "quantize/moments.h"
#include "quantize/source_model.h"

namespace cheetah {

// A change of a tensor that its neighbours make up for: x becomes (x + offset) * rows[r] * cols[c] - offset.
struct TensorEdit {
  std::vector<float> rows;  // empty: none
  std::vector<float> cols;
  float offset = 0;

  void apply(std::vector<float>& numbers, int64_t width) const;
};

// What calibration has to say of a layer before it is quantized.
class Preparation {
 public:
  virtual ~Preparation() = default;
  // Layers come in ascending order; what was known of earlier ones may be forgotten.
  virtual void prepare(int64_t layer) = 0;
  // Of the inputs of a linear layer; nullptr: not known.
  virtual const Moments* moments(const LinearTensor& linear) const = 0;
  // nullptr: the tensor stays as it is.
  virtual const TensorEdit* edit(const std::string& name) const = 0;
};

}  // namespace cheetah
