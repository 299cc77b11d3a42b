// SPDX-License-Identifier: MIT
#include "serve/api/output_parser.h"

#include "serve/api/marks.h"

namespace cheetah {
namespace {

using Kind = OutputDelta::Kind;

}  // namespace

OutputParser::OutputParser(OutputShape shape)
    : shape_(std::move(shape)),
      state_(shape_.reasoning_open.empty() ? State::kContent
             : shape_.begins_in_reasoning  ? State::kReasoningStart
                                           : State::kStart) {
  if (shape_.harmony)
    harmony_.emplace();
  else if (shape_.tools)
    calls_.emplace(*shape_.dialect, shape_.tools, shape_.begins_in_call);
}

void OutputParser::push(std::string_view text, std::vector<OutputDelta>& out) {
  if (harmony_) return harmony_->push(text, out);
  held_ += text;
  while (advance(false, out)) {
  }
}

void OutputParser::finish(bool cut, std::vector<OutputDelta>& out) {
  if (harmony_) return harmony_->finish(cut, out);
  while (advance(true, out)) {
  }
  if (calls_) calls_->finish(cut, out);
}

// Moves on as far as the held text decides; false when it decides nothing more.
bool OutputParser::advance(bool last, std::vector<OutputDelta>& out) {
  switch (state_) {
    case State::kStart:
      return start(last);
    case State::kReasoningStart:
    case State::kAfterReasoning:
      held_.erase(0, leading_space(held_));
      if (held_.empty()) return false;
      state_ = state_ == State::kReasoningStart ? State::kReasoning : State::kContent;
      return true;
    case State::kReasoning:
      return reason(last, out);
    case State::kContent:
      break;
  }
  if (calls_)
    calls_->push(held_, out);
  else if (!held_.empty())
    emit(Kind::kContent, held_, out);
  held_.clear();
  return false;
}

bool OutputParser::start(bool last) {
  const size_t space = leading_space(held_);
  const std::string_view said = std::string_view(held_).substr(space);
  if (said.starts_with(shape_.reasoning_open)) {
    held_.erase(0, space + shape_.reasoning_open.size());
    state_ = State::kReasoningStart;
    return true;
  }
  if (!last && shape_.reasoning_open.starts_with(said)) return false;
  state_ = State::kContent;
  return true;
}

bool OutputParser::reason(bool last, std::vector<OutputDelta>& out) {
  const size_t close = held_.find(shape_.reasoning_close);
  const bool closed = close != std::string::npos;
  // White space that may turn out to end the reasoning waits, as does what may become its end.
  size_t end = closed ? close : held_.size() - (last ? 0 : partial_match(held_, shape_.reasoning_close));
  end = without_trailing_space(std::string_view(held_).substr(0, end));
  if (end > 0) emit(Kind::kReasoning, std::string_view(held_).substr(0, end), out);
  if (!closed) {
    held_.erase(0, end);
    return false;
  }
  held_.erase(0, close + shape_.reasoning_close.size());
  state_ = State::kAfterReasoning;
  return true;
}

void OutputParser::emit(Kind kind, std::string_view text, std::vector<OutputDelta>& out) {
  if (!out.empty() && out.back().kind == kind)
    out.back().text += text;
  else
    out.push_back({.kind = kind, .text = std::string(text), .call = 0});
}

}  // namespace cheetah
