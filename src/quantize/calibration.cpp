// SPDX-License-Identifier: MIT
#include "quantize/calibration.h"

#include <filesystem>

namespace cheetah {
namespace {

CalibrationText read_text(const SourceModel& source, const Model& model, const CalibrationOptions& options) {
  CpuRunner runner(model, {source.pool(), Precision::kExact});
  return calibration_text(model, runner, options);
}

}  // namespace

Calibration::Calibration(const SourceModel& source, const Options& options)
    : source_(source),
      options_(options),
      model_(Model::load(source.path(), {.show_progress = false})),
      text_(read_text(source, *model_, options.text)),
      sites_(source, *model_) {}

void Calibration::prepare(int64_t layer) {
  if (layer >= first_ && layer < end_) return;
  const auto layers = static_cast<int64_t>(source_.family().traits.layers.size());
  int64_t bytes = sites_.bytes_of(layer);
  first_ = layer;
  end_ = layer + 1;
  while (end_ < layers && bytes + sites_.bytes_of(end_) <= options_.memory_bytes)
    bytes += sites_.bytes_of(end_++);
  sites_.collect(first_, end_ - first_);
  observe(*model_, text_.windows, sites_, {source_.pool(), Precision::kExact});
  if (!options_.scale_for) return;
  edits_.clear();
  for (int64_t i = first_; i < end_; ++i) scale_layer(source_, i, *options_.scale_for, sites_, edits_);
}

Json Calibration::about() const {
  int64_t tokens = 0;
  for (const auto& window : text_.windows) tokens += std::ssize(window);
  return {{"source", std::filesystem::path(text_.source).filename().string()}, {"sha256", text_.sha256},
      {"tokens", tokens}};
}

const Moments* Calibration::moments(const LinearTensor& linear) const { return sites_.find(linear.name); }

const TensorEdit* Calibration::edit(const std::string& name) const {
  const auto at = edits_.find(name);
  return at == edits_.end() ? nullptr : &at->second;
}

}  // namespace cheetah
