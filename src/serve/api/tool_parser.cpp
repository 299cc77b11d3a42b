// SPDX-License-Identifier: MIT
#include "serve/api/tool_parser.h"

#include <algorithm>
#include <cctype>

#include "base/format.h"
#include "serve/api/json_text.h"
#include "serve/api/marks.h"

namespace cheetah {
namespace {

using Kind = OutputDelta::Kind;

constexpr size_t kMaxNameBytes = 256;

// Kimi numbers its calls (functions.NAME:0), Mistral may put an id behind the name (NAME[CALL_ID]x).
std::string clean_name(std::string_view text) {
  text.remove_prefix(leading_space(text));
  text = text.substr(0, without_trailing_space(text));
  text = text.substr(0, text.find('['));
  if (text.starts_with("functions.")) text.remove_prefix(10);
  if (const size_t colon = text.rfind(':'); colon != std::string_view::npos)
    if (std::ranges::all_of(text.substr(colon + 1), [](unsigned char c) { return std::isdigit(c) != 0; }))
      text = text.substr(0, colon);
  return std::string(text);
}

bool is_name(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](unsigned char c) {
    return std::isalnum(c) || c == '_' || c == '-' || c == '.' || c == ':' || c == '/';
  });
}

std::string_view without_newlines(std::string_view text) {
  if (text.starts_with('\n')) text.remove_prefix(1);
  if (text.ends_with('\n')) text.remove_suffix(1);
  return text;
}

}  // namespace

ToolParser::ToolParser(const ToolDialect& dialect, std::shared_ptr<const ToolSet> tools, bool begins_in_name)
    : dialect_(&dialect),
      tools_(std::move(tools)),
      state_(begins_in_name ? State::kName
             : dialect.bare ? State::kStart
                            : State::kText) {}

void ToolParser::push(std::string_view text, std::vector<OutputDelta>& out) {
  held_ += text;
  while (advance(false, out)) {
  }
}

void ToolParser::finish(bool cut, std::vector<OutputDelta>& out) {
  if (cut && certain_) return;
  while (advance(true, out)) {
  }
  if (certain_) return end_call(out);  // the model left its end away
  if (state_ == State::kText || state_ == State::kClose) return;
  give_up();
  while (advance(true, out)) {
  }
}

bool ToolParser::advance(bool last, std::vector<OutputDelta>& out) {
  switch (state_) {
    case State::kStart:
      return at_start(last);
    case State::kText:
      return in_text(last, out);
    case State::kObjects:
      return between_objects(last);
    case State::kObject:
      return in_object(out);
    case State::kCalls:
      return between_calls(last);
    case State::kCall:
      return in_call(out);
    case State::kName:
      return in_name(last, out);
    case State::kBefore:
      return before_value(out);
    case State::kValue:
      return in_value(out);
    case State::kParameters:
      return between_parameters(last, out);
    case State::kKey:
      return in_key();
    case State::kParameter:
      return in_parameter(out);
    case State::kClose:
      break;
  }
  return closing(last);
}

bool ToolParser::at_start(bool last) {
  const size_t space = leading_space(held_);
  if (space == held_.size() && !last) return false;
  const bool python = dialect_->shape == CallShape::kPython;
  bare_ = space < held_.size() && held_[space] == (python ? '[' : '{');
  if (bare_) keep(space);
  state_ = !bare_ ? State::kText : python ? State::kCalls : State::kObject;
  return true;
}

bool ToolParser::in_text(bool last, std::vector<OutputDelta>& out) {
  size_t first = std::string::npos;
  std::string_view mark;
  size_t partial = 0;
  const auto look_for = [&](std::string_view wanted) {
    if (wanted.empty()) return;
    const size_t at = held_.find(wanted, plain_);
    if (at < first) {
      first = at;
      mark = wanted;
    }
    partial = std::max(partial, partial_match(std::string_view(held_).substr(plain_), wanted));
  };
  look_for(dialect_->trigger);
  for (const std::string_view wrapper : dialect_->wrappers) look_for(wrapper);
  if (first != std::string::npos) return follow_mark(first, mark, out);
  size_t end = held_.size();
  if (!last) {  // what may become a mark waits, and the white space before it
    end = without_trailing_space(std::string_view(held_).substr(0, end - partial));
    end = std::max(end, std::min(plain_, held_.size()));
  }
  emit(Kind::kContent, std::string_view(held_).substr(0, end), out);
  held_.erase(0, end);
  plain_ -= std::min(plain_, end);
  return false;
}

bool ToolParser::follow_mark(size_t at, std::string_view mark, std::vector<OutputDelta>& out) {
  const size_t end = std::max(without_trailing_space(std::string_view(held_).substr(0, at)), plain_);
  emit(Kind::kContent, std::string_view(held_).substr(0, end), out);
  held_.erase(0, at);
  plain_ = 0;
  if (mark != dialect_->trigger) {
    held_.erase(0, mark.size());
    state_ = State::kClose;
    return true;
  }
  tried_.clear();
  keep(mark.size());
  after_call_ = bare_ = false;
  state_ = dialect_->shape == CallShape::kJson     ? State::kObjects
           : dialect_->shape == CallShape::kPython ? State::kCalls
                                                   : State::kName;
  return true;
}

bool ToolParser::between_objects(bool last) {
  const std::string_view fillers = after_call_ ? " \t\r\n[],;" : " \t\r\n[";
  const size_t at = std::min(held_.find_first_not_of(fillers), held_.size());
  if (after_call_)
    held_.erase(0, at);
  else
    keep(at);
  if (held_.empty()) return false;
  if (held_.front() == '{') {
    call_ = CallScanner();
    state_ = State::kObject;
    return true;
  }
  if (!last && !dialect_->close.empty() && is_part_of(held_, dialect_->close)) return false;
  if (!after_call_) return give_up();
  state_ = State::kClose;
  return true;
}

bool ToolParser::in_object(std::vector<OutputDelta>& out) {
  size_t used = 0;
  CallScanner::Status status = CallScanner::Status::kMore;
  while (used < held_.size() && status == CallScanner::Status::kMore) {
    status = call_.feed(held_[used]);
    if (status == CallScanner::Status::kBroken) break;
    ++used;
    if (certain_ || !call_.has_name()) continue;
    if (bare_ && !tools_->find(call_.name())) {
      status = CallScanner::Status::kBroken;
      break;
    }
    announce(call_.name(), out);
  }
  if (certain_)
    held_.erase(0, used);
  else
    keep(used);
  if (certain_) arguments(call_.take_arguments(), out);
  if (status == CallScanner::Status::kMore) return false;
  if (!certain_) return give_up();
  end_call(out);
  after_call_ = true;
  state_ = status == CallScanner::Status::kDone ? State::kObjects : State::kClose;
  return true;
}

bool ToolParser::between_calls(bool last) {
  const std::string_view fillers = after_call_ ? " \t\r\n,;[]" : " \t\r\n[";
  const size_t at = std::min(held_.find_first_not_of(fillers), held_.size());
  if (after_call_)
    held_.erase(0, at);
  else
    keep(at);
  if (held_.empty()) return false;
  if (!last && is_part_of(held_, dialect_->close) && !held_.starts_with(dialect_->close)) return false;
  if (held_.starts_with(dialect_->close)) {
    if (!after_call_) return give_up();
    state_ = State::kClose;
    return true;
  }
  python_ = PythonCall();
  state_ = State::kCall;
  return true;
}

bool ToolParser::in_call(std::vector<OutputDelta>& out) {
  using Status = PythonCall::Status;
  size_t used = 0;
  Status status = Status::kMore;
  while (used < held_.size() && status == Status::kMore) {
    status = python_.feed(held_[used]);
    if (status == Status::kName && bare_ && !tools_->find(python_.name())) status = Status::kBroken;
    if (status == Status::kBroken) break;
    ++used;
    if (status == Status::kName) {
      announce(python_.name(), out);
      status = Status::kMore;
    } else if (status == Status::kArgument) {
      arguments(format("{}{}: {}", wrote_arguments_ ? ", " : "{", json_string(python_.key()),
                    json_of_python(python_.value())),
          out);
      status = python_.done() ? Status::kDone : Status::kMore;
    }
  }
  if (certain_)
    held_.erase(0, used);
  else
    keep(used);
  if (status == Status::kMore) return false;
  if (!certain_) return give_up();
  if (wrote_arguments_) arguments("}", out);
  end_call(out);
  after_call_ = true;
  state_ = status == Status::kDone ? State::kCalls : State::kClose;
  return true;
}

bool ToolParser::in_name(bool last, std::vector<OutputDelta>& out) {
  const std::string_view mark = dialect_->after_name;
  const size_t start = mark.empty() ? leading_space(held_) : 0;
  const size_t end = mark.empty() ? held_.find_first_of(" \t\r\n<", start) : held_.find(mark);
  if (end == std::string::npos && held_.size() <= kMaxNameBytes + mark.size() && !last) return false;
  if (end == std::string::npos || end > kMaxNameBytes) return give_up();
  name_ = clean_name(std::string_view(held_).substr(0, end));
  if (!is_name(name_)) return give_up();
  keep(end + mark.size());
  if (dialect_->name == "functionary" && name_ == "all") {  // words for the reader
    tried_.clear();
    state_ = State::kText;
    return true;
  }
  state_ = State::kBefore;
  if (dialect_->shape == CallShape::kParameters) {
    announce(name_, out);
    state_ = State::kParameters;
  }
  return true;
}

bool ToolParser::before_value(std::vector<OutputDelta>& out) {
  keep(leading_space(held_));
  if (held_.empty()) return false;
  if (held_.front() != '{') return give_up();
  announce(name_, out);
  value_ = ValueScanner();
  state_ = State::kValue;
  return true;
}

bool ToolParser::in_value(std::vector<OutputDelta>& out) {
  size_t used = 0;
  bool done = false;
  while (used < held_.size() && !done) done = value_.feed(held_[used++]);
  arguments(std::string_view(held_).substr(0, used), out);
  held_.erase(0, used);
  if (!done) return false;
  end_call(out);
  state_ = State::kClose;
  return true;
}

bool ToolParser::between_parameters(bool last, std::vector<OutputDelta>& out) {
  held_.erase(0, leading_space(held_));
  if (held_.starts_with(dialect_->open_parameter)) {
    held_.erase(0, dialect_->open_parameter.size());
    state_ = State::kKey;
    return true;
  }
  if (!last && (is_part_of(held_, dialect_->open_parameter) || is_part_of(held_, dialect_->close)))
    if (!held_.starts_with(dialect_->close)) return false;
  if (wrote_arguments_) arguments("}", out);
  end_call(out);
  state_ = State::kClose;
  return true;
}

bool ToolParser::in_key() {
  const size_t end = held_.find(dialect_->after_key);
  if (end == std::string::npos) return false;
  key_ = held_.substr(0, std::min(end, held_.find('"')));  // further attributes may follow the name
  held_.erase(0, end + dialect_->after_key.size());
  state_ = State::kParameter;
  return true;
}

bool ToolParser::in_parameter(std::vector<OutputDelta>& out) {
  const size_t end = held_.find(dialect_->close_parameter);
  if (end == std::string::npos) return false;
  std::string_view text = std::string_view(held_).substr(0, end);
  if (const std::string_view inner = text.substr(leading_space(text)); inner.starts_with("<arg_value>"))
    text = inner.substr(11);
  text = without_newlines(text);
  const bool is_json = !tools_->is_text(name_, key_) && Json::accept(text);
  arguments(format("{}{}: {}", wrote_arguments_ ? ", " : "{", json_string(key_),
                is_json ? std::string(text) : json_string(text)),
      out);
  held_.erase(0, end + dialect_->close_parameter.size());
  state_ = State::kParameters;
  return true;
}

bool ToolParser::closing(bool last) {
  held_.erase(0, std::min(held_.find_first_not_of(" \t\r\n`"), held_.size()));
  if (held_.empty()) return false;
  if (!dialect_->close.empty() && is_part_of(held_, dialect_->close)) {
    if (!held_.starts_with(dialect_->close)) {
      if (!last) return false;
    } else {
      held_.erase(0, dialect_->close.size());
      return true;
    }
  }
  state_ = State::kText;
  return true;
}

void ToolParser::keep(size_t length) {
  tried_.append(held_, 0, length);
  held_.erase(0, length);
}

bool ToolParser::give_up() {
  plain_ = tried_.size();
  held_.insert(0, tried_);
  tried_.clear();
  state_ = State::kText;
  return true;
}

void ToolParser::announce(const std::string& name, std::vector<OutputDelta>& out) {
  ++num_calls_;
  certain_ = true;
  wrote_arguments_ = false;
  tried_.clear();
  emit(Kind::kToolCall, name, out);
}

void ToolParser::end_call(std::vector<OutputDelta>& out) {
  if (!wrote_arguments_) arguments("{}", out);
  certain_ = false;
}

void ToolParser::arguments(std::string_view text, std::vector<OutputDelta>& out) {
  wrote_arguments_ = wrote_arguments_ || !text.empty();
  emit(Kind::kToolArguments, text, out);
}

void ToolParser::emit(Kind kind, std::string_view text, std::vector<OutputDelta>& out) const {
  if (text.empty()) return;
  const int call = kind == Kind::kContent ? 0 : num_calls_ - 1;
  if (!out.empty() && out.back().kind == kind && kind != Kind::kToolCall && out.back().call == call)
    out.back().text += text;
  else
    out.push_back({.kind = kind, .text = std::string(text), .call = call});
}

}  // namespace cheetah
