// SPDX-License-Identifier: MIT
#pragma once
#include <string>

namespace cheetah {

// Something new in an answer. The texts of one kind (and call) joined are the whole.
struct OutputDelta {
  enum class Kind { kReasoning, kContent, kToolCall, kToolArguments };
  Kind kind = Kind::kContent;
  std::string text;  // of kToolCall: the tool's name
  int call = 0;      // which tool call, counted from 0
};

}  // namespace cheetah
