// SPDX-License-Identifier: MIT
#include "serve/api/call_scanner.h"

#include <utility>

#include "base/json.h"

namespace cheetah {
namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

}  // namespace

bool ValueScanner::feed(char c) {
  if (in_string_) {
    if (std::exchange(escaped_, false)) return false;
    if (c == '\\') escaped_ = true;
    if (c == '"') in_string_ = false;
    return false;
  }
  if (c == '"') in_string_ = true;
  if (c == '{' || c == '[') ++nest_;
  if (c == '}' || c == ']') return --nest_ <= 0;
  return false;
}

CallScanner::Status CallScanner::feed(char c) {
  switch (state_) {
    case State::kOpen:
      if (c != '{') return Status::kBroken;
      level_ = 1;
      state_ = State::kKey;
      return Status::kMore;
    case State::kKey:
    case State::kInKey:
    case State::kColon:
      return feed_key(c);
    case State::kValue:
      if (is_space(c)) return Status::kMore;
      return begin_value(c) ? Status::kMore : Status::kBroken;
    default:
      return feed_value(c);
  }
}

CallScanner::Status CallScanner::feed_key(char c) {
  if (state_ == State::kInKey) {
    if (c == '"') state_ = State::kColon;
    key_ += c;
    return key_.size() > 256 ? Status::kBroken : Status::kMore;
  }
  if (is_space(c)) return Status::kMore;
  if (state_ == State::kColon) {
    state_ = State::kValue;
    return c == ':' ? Status::kMore : Status::kBroken;
  }
  if (c == ',') return Status::kMore;
  if (c == '}') return --level_ == 0 ? Status::kDone : Status::kMore;
  if (c != '"') return Status::kBroken;
  key_.clear();
  state_ = State::kInKey;
  return Status::kMore;
}

bool CallScanner::begin_value(char c) {
  key_.pop_back();  // the quote
  if (key_ == "function" && c == '{') {
    ++level_;
    state_ = State::kKey;
    return true;
  }
  const bool names = key_ == "name" || key_ == "tool_name" || key_ == "function";
  const bool arguments = key_ == "arguments" || key_ == "parameters";
  const bool known = names || arguments || key_ == "id" || key_ == "type" || key_ == "tool_call_id";
  if (!known) return false;  // some other object: better seen as text at once
  role_ = names ? Role::kName : arguments ? Role::kArguments : Role::kOther;
  value_.clear();
  nest_ = c == '{' || c == '[' ? 1 : 0;
  in_string_ = escaped_ = false;
  state_ = c == '"' ? State::kString : nest_ > 0 ? State::kNested : State::kScalar;
  take(c);
  return true;
}

// Arguments are handed on as they come, unless they are packed into a string.
void CallScanner::take(char c) {
  if (role_ == Role::kArguments && state_ == State::kNested)
    arguments_ += c;
  else if (role_ != Role::kOther)
    value_ += c;
}

CallScanner::Status CallScanner::feed_value(char c) {
  if (state_ == State::kScalar && (c == ',' || c == '}' || is_space(c))) {
    if (!end_value()) return Status::kBroken;
    return feed_key(c);
  }
  take(c);
  if (state_ == State::kScalar) return Status::kMore;
  if (state_ == State::kString || in_string_) {
    if (std::exchange(escaped_, false)) return Status::kMore;
    if (c == '\\') escaped_ = true;
    if (c != '"') return Status::kMore;
    if (state_ == State::kNested) {
      in_string_ = false;
      return Status::kMore;
    }
    return end_value() ? Status::kMore : Status::kBroken;
  }
  if (c == '"') in_string_ = true;
  if (c == '{' || c == '[') ++nest_;
  if ((c == '}' || c == ']') && --nest_ == 0) return end_value() ? Status::kMore : Status::kBroken;
  return Status::kMore;
}

bool CallScanner::end_value() {
  const State kind = std::exchange(state_, State::kKey);
  if (role_ == Role::kOther || kind == State::kNested) return role_ != Role::kName;
  const Json value = Json::parse(value_, nullptr, false);
  if (value.is_discarded()) return false;
  if (role_ == Role::kArguments) {
    if (!value.is_null()) arguments_ += value.is_string() ? value.get<std::string>() : value_;
    return true;
  }
  if (!value.is_string()) return false;
  name_ = value.get<std::string>();
  has_name_ = true;
  return true;
}

}  // namespace cheetah
