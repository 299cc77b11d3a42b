// SPDX-License-Identifier: MIT
#pragma once
// The evaluation that a quantized model carries: what was measured, on which weights and data, and whether it
// passed.
#include <functional>
#include <optional>
#include <string>

#include "base/json.h"
#include "quantize/evaluation.h"
#include "quantize/source_model.h"

namespace cheetah {

inline constexpr const char* kEvaluationFile = "cheetah_evaluation.json";

struct GateOptions {
  std::string data = {};  // file; "": heldout.u16 beside the source, or no evaluation where there is none
  int64_t window = 512;
  int64_t max_windows = 0;
  std::optional<double> max_kl = {};  // nullopt: whatever it is passes
  Json calibration = nullptr;         // what the weights were calibrated on, for the record
};

struct GateHooks {
  std::function<void(int64_t windows)> begin = {};
  std::function<void()> window = {};
};

struct GateResult {
  Json document;  // null: nothing to evaluate on
  Evaluation evaluation;
  bool passed = true;
};

// Runs the model at `path` beside the one it was made of, both with exact arithmetic on the CPU.
GateResult run_gate(const std::string& path, const SourceModel& source, std::string_view format,
    const GateOptions& options, const GateHooks& hooks);

struct RecordedEvaluation {
  bool quantized = false;  // the weights are in a type that a gate is for
  bool present = false;
  bool passed = false;
  bool stale = false;   // of other weights
  std::string summary;  // "KL 0.0123 (0.0119 .. 0.0127), perplexity 4.81, reference 4.75, on heldout.u16"
};

// What the model at `path` says of itself. A record that cannot be read counts as absent.
RecordedEvaluation read_recorded_evaluation(const std::string& path);

}  // namespace cheetah
