// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "serve/api/output_delta.h"

namespace cheetah {

// Answers in gpt-oss's format: messages on channels,
//   <|channel|>analysis<|message|>thoughts<|end|><|start|>assistant<|channel|>final<|message|>words
//   <|channel|>commentary to=functions.NAME <|constrain|>json<|message|>{arguments}<|call|>
// Decides on bytes alone, never on where the pieces end. One answer; one thread.
class HarmonyParser {
 public:
  // Stands in the templates of models that answer so.
  static constexpr std::string_view kSign = "<|channel|>";

  void push(std::string_view text, std::vector<OutputDelta>& out);
  // `cut`: the answer ended before the model ended it; a call that it cuts stays unfinished.
  void finish(bool cut, std::vector<OutputDelta>& out);
  bool in_reasoning() const { return in_body_ && kind_ == OutputDelta::Kind::kReasoning; }

 private:
  bool advance(bool last, std::vector<OutputDelta>& out);
  bool in_header(bool last, std::vector<OutputDelta>& out);
  bool in_body(bool last, std::vector<OutputDelta>& out);
  void open(std::string_view header, std::vector<OutputDelta>& out);
  void emit(std::string_view text, std::vector<OutputDelta>& out);

  std::string held_;
  bool in_body_ = false;
  bool any_ = false;  // a message has begun
  OutputDelta::Kind kind_ = OutputDelta::Kind::kContent;
  bool wrote_ = false;  // something in this message
  int num_calls_ = 0;
};

}  // namespace cheetah
