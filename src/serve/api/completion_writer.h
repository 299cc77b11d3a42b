// SPDX-License-Identifier: MIT
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "serve/api/answer.h"

namespace cheetah {

struct CompletionStyle : AnswerStyle {
  bool echo = false;
  int n = 1;
  std::vector<std::string> echoed;  // with echo: the text of each prompt
};

// Answers of /v1/completions, whole or as server-sent events.
std::unique_ptr<ResponseWriter> make_completion_writer(
    CompletionStyle style, const std::vector<GenerationRequest>& requests);

}  // namespace cheetah
