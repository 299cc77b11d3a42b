// SPDX-License-Identifier: MIT
#pragma once
#include <memory>

#include "quantize/awq.h"
#include "quantize/calibration_text.h"
#include "quantize/observe.h"
#include "quantize/preparation.h"

namespace cheetah {

// Prepares layers from a text: collects the moments of as many layers at once as the memory allows, in a pass
// over the text per batch of layers.
class Calibration final : public Preparation {
 public:
  struct Options {
    CalibrationOptions text;
    int64_t memory_bytes = int64_t{2} << 30;  // for moments
    std::optional<GridRules> scale_for = {};  // AWQ, for these integers
  };
  Calibration(const SourceModel& source, const Options& options);

  void prepare(int64_t layer) override;
  const Moments* moments(const LinearTensor& linear) const override;
  const TensorEdit* edit(const std::string& name) const override;
  Json about() const;  // the text, for the record

 private:
  const SourceModel& source_;
  Options options_;
  std::unique_ptr<Model> model_;
  CalibrationText text_;
  mutable InputSites sites_;
  TensorEdits edits_;
  int64_t first_ = 0;  // layers whose moments are there
  int64_t end_ = 0;
};

}  // namespace cheetah
