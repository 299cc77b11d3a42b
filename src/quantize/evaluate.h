// SPDX-License-Identifier: MIT
#pragma once
// A model's loss on text, and how far its predictions are from another model's.
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "base/thread_pool.h"
#include "model/model.h"
#include "quantize/eval_data.h"

namespace cheetah {

// Sums over the predicted tokens of one window. The last five need a reference.
struct WindowScore {
  int64_t tokens = 0;
  double nll = 0;
  int64_t right = 0;  // tokens whose prediction is the text's
  double reference_nll = 0;
  double kl = 0;      // of the reference's distribution from this one, nats
  double max_kl = 0;  // of one token
  int64_t agree = 0;  // tokens whose likeliest prediction is the reference's
  int64_t reference_right = 0;
};

struct QuestionScore {
  bool right = false;
  bool reference_right = false;
  bool agree = false;  // both chose the same
};

struct RunningModel {
  const Model& model;
  Runner& runner;
};

// Reports each unit as it is done; keeps nothing itself, so that the caller can store and resume.
struct EvalHooks {
  std::function<void(int64_t index, const WindowScore&)> window = {};
  std::function<void(int64_t index, const QuestionScore&)> question = {};
};

// Scores windows (or questions) first, first + 1, … to the end. With a reference, both models read the same
// ids: throws Error when their vocabularies differ.
void evaluate(const EvalData& data, int64_t first, const RunningModel& model,
    const std::optional<RunningModel>& reference, ThreadPool& pool, const EvalHooks& hooks);

}  // namespace cheetah
