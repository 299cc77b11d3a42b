#pragma once
// The text of an answer taken apart while it grows: what was thought, what is said, which tools are called.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace cheetah {

// Something new in an answer. Deltas of one kind follow each other; joined they are the whole.
struct OutputDelta {
  enum class Kind { kReasoning, kContent, kToolCall, kToolArguments };
  Kind kind = Kind::kContent;
  std::string text;  // of kToolCall: the tool's name
  int call = 0;      // which tool call, counted from 0
};

// How answers are to be read.
struct OutputShape {
  std::string reasoning_open, reasoning_close;  // empty: answers show no reasoning
  bool begins_in_reasoning = false;             // the prompt has opened it already
};

// How many bytes at the end of `text` may be the beginning of `mark`, which is not empty.
size_t partial_match(std::string_view text, std::string_view mark);

// One answer; one thread. The deltas joined do not depend on how the text was cut into pieces.
class OutputParser {
 public:
  explicit OutputParser(OutputShape shape);
  void push(std::string_view text, std::vector<OutputDelta>& out);
  void finish(std::vector<OutputDelta>& out);

  int num_calls() const { return num_calls_; }
  bool in_reasoning() const { return state_ == State::kReasoning || state_ == State::kReasoningStart; }

 private:
  enum class State { kStart, kReasoningStart, kReasoning, kAfterReasoning, kContent };
  bool advance(bool last, std::vector<OutputDelta>& out);
  bool start(bool last);
  bool reason(bool last, std::vector<OutputDelta>& out);
  static void emit(OutputDelta::Kind kind, std::string_view text, std::vector<OutputDelta>& out);

  OutputShape shape_;
  State state_;
  std::string held_;
  int num_calls_ = 0;
};

}  // namespace cheetah
