// SPDX-License-Identifier: MIT
#pragma once
// What a model is evaluated on: windows of token ids, and questions with choices.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/model.h"

namespace cheetah {

struct ChoiceQuestion {
  std::string prompt;
  std::vector<std::string> choices;
  int64_t answer = 0;
};

struct EvalData {
  std::string source;                         // the file
  std::string sha256;                         // of its bytes
  int64_t window = 0;                         // tokens of a whole window
  std::vector<std::vector<int32_t>> windows;  // at least two tokens each
  std::vector<ChoiceQuestion> questions;      // in place of windows
};

struct EvalDataOptions {
  int64_t window = 512;
  int64_t max_windows = 0;  // 0: all; also of questions
};

// By its ending: .u16 (token ids, little-endian), .jsonl (an object per line: "text", or a question with
// "choices" and "answer"), anything else is text. Text needs the model's tokenizer. Throws Error.
EvalData read_eval_data(const std::string& path, const Model& model, const EvalDataOptions& options);

// heldout.u16 beside the model; "" when there is none.
std::string heldout_beside(const std::string& model_path);

// Lines of JSON as questions; `what` is used in messages.
std::vector<ChoiceQuestion> read_questions(std::string_view text, const std::string& what);

}  // namespace cheetah
