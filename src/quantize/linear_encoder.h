// SPDX-License-Identifier: MIT
#pragma once
// How one linear layer is written to safetensors in a target format, and what config.json says of it.
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "quantize/integer_grid.h"
#include "quantize/moments.h"
#include "quantize/source_model.h"
#include "quantize/target_format.h"

namespace cheetah {

struct PlannedTensor {
  std::string name;
  DType dtype = DType::kBF16;
  Shape shape;
  int64_t bytes() const { return shape.elements() * traits_of(dtype).block_bytes; }
};

class LinearEncoder {
 public:
  // `group`: 0 picks the largest of 128, 64, 32 and 16 that divides every layer's inputs. Throws UsageError when
  // the one asked for does not.
  LinearEncoder(const SourceModel& source, const TargetFormat& format, int64_t group);

  bool fits(const LinearTensor& linear) const;
  // In the order in which encode() gives them.
  std::vector<PlannedTensor> plan(const LinearTensor& linear) const;
  // `moments`: of the layer's inputs, for calibrated formats; nullptr rounds to nearest.
  std::vector<OwnedTensor> encode(
      const LinearTensor& linear, std::vector<float> numbers, const Moments* moments) const;
  Json quantization_config() const;
  int64_t group() const { return group_; }
  GridRules rules() const;

 private:
  IntMatrix round(const LinearTensor& linear, std::vector<float> numbers, const Moments* moments) const;
  Json compressed_config() const;
  Json ignored() const;
  const SourceModel& source_;
  const TargetFormat& format_;
  int64_t group_ = 0;
  DType scale_type_ = DType::kF16;
};

}  // namespace cheetah
