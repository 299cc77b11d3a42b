// SPDX-License-Identifier: MIT
#pragma once
// The text of an answer taken apart while it grows: what was thought, what is said, which tools are called.
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/api/harmony_parser.h"
#include "serve/api/output_delta.h"
#include "serve/api/tool_parser.h"

namespace cheetah {

// How answers are to be read.
struct OutputShape {
  std::string reasoning_open, reasoning_close;  // empty: answers show no reasoning
  bool begins_in_reasoning = false;             // the prompt has opened it already
  std::shared_ptr<const ToolSet> tools;         // shared: with every parser; nullptr: no calls are looked for
  const ToolDialect* dialect = nullptr;         // with tools
  bool begins_in_call = false;                  // the prompt ends with the mark that begins a call
  bool harmony = false;                         // gpt-oss's format; the rest does not matter then
};

// One answer; one thread. The deltas joined do not depend on how the text was cut into pieces.
class OutputParser {
 public:
  explicit OutputParser(OutputShape shape);
  void push(std::string_view text, std::vector<OutputDelta>& out);
  // `cut`: by a limit, not by the model. A call it cuts keeps the arguments it has, which are not whole JSON.
  void finish(bool cut, std::vector<OutputDelta>& out);

  bool in_reasoning() const {
    return harmony_ ? harmony_->in_reasoning()
                    : state_ == State::kReasoning || state_ == State::kReasoningStart;
  }

 private:
  enum class State { kStart, kReasoningStart, kReasoning, kAfterReasoning, kContent };
  bool advance(bool last, std::vector<OutputDelta>& out);
  bool start(bool last);
  bool reason(bool last, std::vector<OutputDelta>& out);
  static void emit(OutputDelta::Kind kind, std::string_view text, std::vector<OutputDelta>& out);

  OutputShape shape_;
  State state_;
  std::string held_;
  std::optional<HarmonyParser> harmony_;
  std::optional<ToolParser> calls_;  // reads what is no reasoning
};

}  // namespace cheetah
