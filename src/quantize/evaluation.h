// SPDX-License-Identifier: MIT
#pragma once
// The result of an evaluation: what the command prints, and what stands in a quantized model beside its
// weights.
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "quantize/estimate.h"
#include "quantize/evaluate.h"

namespace cheetah {

struct EvaluationScores {
  std::vector<WindowScore> windows = {};
  std::vector<QuestionScore> questions = {};
};

struct Evaluation {
  bool has_reference = false;
  int64_t tokens = 0;
  int64_t windows = 0;
  Estimate nll = {};  // nats per token; perplexity is its exponential
  Estimate right = {};
  Estimate reference_nll = {};
  Estimate nll_change = {};  // from the reference's, on the same tokens
  Estimate kl = {};
  double max_kl = 0;
  Estimate agree = {};

  int64_t questions = 0;
  Estimate accuracy = {};
  Estimate reference_accuracy = {};
  Estimate answers_agree = {};
};

Evaluation summarize(const EvaluationScores& scores, bool has_reference);

Json json_of(const Evaluation& evaluation);
// Lines of text: a name and a value with its interval.
std::string text_of(const Evaluation& evaluation);

}  // namespace cheetah
