// SPDX-License-Identifier: MIT
#include "serve/api/python_call.h"

#include <cctype>
#include <charconv>
#include <optional>
#include <utility>

#include "base/json.h"
#include "serve/api/json_text.h"

namespace cheetah {
namespace {

constexpr size_t kMaxNameBytes = 256;
constexpr int kMaxNest = 64;

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }
bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

void append_utf8(uint32_t code, std::string& out) {
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xC0 | code >> 6);
    out += static_cast<char>(0x80 | (code & 63));
  } else if (code < 0x10000) {
    out += static_cast<char>(0xE0 | code >> 12);
    out += static_cast<char>(0x80 | (code >> 6 & 63));
    out += static_cast<char>(0x80 | (code & 63));
  } else {
    out += static_cast<char>(0xF0 | code >> 18);
    out += static_cast<char>(0x80 | (code >> 12 & 63));
    out += static_cast<char>(0x80 | (code >> 6 & 63));
    out += static_cast<char>(0x80 | (code & 63));
  }
}

// Reads one literal from the front of the text and writes it as JSON.
class LiteralReader {
 public:
  explicit LiteralReader(std::string_view text) : rest_(text) {}

  std::optional<std::string> whole() {
    if (!value(0)) return std::nullopt;
    skip_space();
    if (!rest_.empty()) return std::nullopt;
    return std::move(out_);
  }

 private:
  void skip_space() {
    while (!rest_.empty() && is_space(rest_.front())) rest_.remove_prefix(1);
  }
  bool take(char c) {
    skip_space();
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }

  bool value(int nest) {
    skip_space();
    if (rest_.empty() || nest > kMaxNest) return false;
    const char c = rest_.front();
    if (c == '"' || c == '\'') return string();
    if (c == '[') return list(']', nest);
    if (c == '(') return list(')', nest);
    if (c == '{') return dict(nest);
    return word();
  }

  bool list(char close, int nest) {
    rest_.remove_prefix(1);
    out_ += '[';
    for (bool first = true; !take(close); first = false) {
      if (!first && !take(',')) return false;
      if (take(close)) break;
      if (!first) out_ += ", ";
      if (!value(nest + 1)) return false;
    }
    out_ += ']';
    return true;
  }

  bool dict(int nest) {
    rest_.remove_prefix(1);
    out_ += '{';
    for (bool first = true; !take('}'); first = false) {
      if (!first && !take(',')) return false;
      if (take('}')) break;
      if (!first) out_ += ", ";
      skip_space();
      if (rest_.empty() || (rest_.front() != '"' && rest_.front() != '\'') || !string() || !take(':'))
        return false;
      out_ += ": ";
      if (!value(nest + 1)) return false;
    }
    out_ += '}';
    return true;
  }

  bool string() {
    const char quote = rest_.front();
    const std::string thrice(3, quote);
    const std::string end = rest_.starts_with(thrice) ? thrice : std::string(1, quote);
    rest_.remove_prefix(end.size());
    std::string text;
    while (!rest_.starts_with(end)) {
      if (rest_.empty()) return false;
      const char c = rest_.front();
      rest_.remove_prefix(1);
      if (c != '\\')
        text += c;
      else if (!escape(text))
        return false;
    }
    rest_.remove_prefix(end.size());
    out_ += json_string(text);
    return true;
  }

  bool escape(std::string& text) {
    if (rest_.empty()) return false;
    const char c = rest_.front();
    rest_.remove_prefix(1);
    constexpr std::string_view kLetters = "abfnrtv0\\'\"\n", kBytes{"\a\b\f\n\r\t\v\0\\'\"", 11};
    if (c == 'x') return code(2, text);
    if (c == 'u') return code(4, text);
    if (c == 'U') return code(8, text);
    const size_t at = kLetters.find(c);
    if (at < kBytes.size()) {
      text += kBytes[at];
    } else if (at == std::string_view::npos) {  // no escape: both stand for themselves
      text += '\\';
      text += c;
    }
    return true;
  }

  bool code(size_t digits, std::string& text) {
    uint32_t number = 0;
    if (rest_.size() < digits) return false;
    const char* const end = rest_.data() + digits;
    if (std::from_chars(rest_.data(), end, number, 16).ptr != end || number > 0x10FFFF ||
        (number >= 0xD800 && number < 0xE000))
      return false;
    rest_.remove_prefix(digits);
    append_utf8(number, text);
    return true;
  }

  bool word() {
    size_t end = 0;
    while (end < rest_.size() &&
           (is_word(rest_[end]) || rest_[end] == '.' || rest_[end] == '+' || rest_[end] == '-'))
      ++end;
    std::string text(rest_.substr(0, end));
    rest_.remove_prefix(end);
    if (text == "True" || text == "true") return out_ += "true", true;
    if (text == "False" || text == "false") return out_ += "false", true;
    if (text == "None" || text == "null") return out_ += "null", true;
    std::erase(text, '_');
    if (text.starts_with('+')) text.erase(0, 1);
    if (text.starts_with('.')) text.insert(0, 1, '0');
    if (text.ends_with('.')) text += '0';
    if (text.empty() || !Json::accept(text)) return false;
    out_ += text;
    return true;
  }

  std::string_view rest_;
  std::string out_;
};

}  // namespace

PythonCall::Status PythonCall::feed(char c) {
  switch (state_) {
    case State::kName:
      if (c == '(') {
        state_ = State::kKey;
        return name_.empty() ? Status::kBroken : Status::kName;
      }
      if (!is_word(c) && c != '.' && c != '-') return Status::kBroken;
      name_ += c;
      return name_.size() > kMaxNameBytes ? Status::kBroken : Status::kMore;
    case State::kKey:
      return feed_key(c);
    case State::kValue:
      break;
  }
  return feed_value(c);
}

PythonCall::Status PythonCall::feed_key(char c) {
  if (std::exchange(took_argument_, false)) {
    key_.clear();
    key_ended_ = false;
  }
  if (is_space(c)) {
    key_ended_ = !key_.empty();
    return Status::kMore;
  }
  if (c == ')' && key_.empty()) return Status::kDone;
  if (c == '=' && !key_.empty()) {
    state_ = State::kValue;
    value_.clear();
    nest_ = 0;
    return Status::kMore;
  }
  if (!is_word(c) || key_ended_ || key_.size() >= kMaxNameBytes) return Status::kBroken;
  key_ += c;
  return Status::kMore;
}

PythonCall::Status PythonCall::feed_value(char c) {
  if (!in_string(c)) {
    if (c == '(' || c == '[' || c == '{') ++nest_;
    const bool closes = c == ')' || c == ']' || c == '}';
    if (nest_ == 0 && (c == ',' || c == ')')) {
      done_ = c == ')';
      state_ = State::kKey;
      took_argument_ = true;
      return Status::kArgument;
    }
    if (closes && --nest_ < 0) return Status::kBroken;
  }
  value_ += c;
  return Status::kMore;
}

// Whether the byte belongs to a string, its quotes included. Three quotes open a string that three end.
bool PythonCall::in_string(char c) {
  if (quote_ == 0) {
    if (c != '"' && c != '\'') return false;
    quote_ = c;
    quotes_ = 1;
    triple_ = escaped_ = false;
    opening_ = true;
    return true;
  }
  if (opening_) {
    if (c == quote_ && ++quotes_ <= 3) {
      if (quotes_ < 3) return true;
      triple_ = true;
      opening_ = false;
      quotes_ = 0;
      return true;
    }
    opening_ = false;
    if (quotes_ == 2) {  // it was empty, and is over
      quote_ = 0;
      return in_string(c);
    }
    quotes_ = 0;
  }
  if (escaped_) {
    escaped_ = false;
    return true;
  }
  if (c == '\\') escaped_ = true;
  quotes_ = c == quote_ ? quotes_ + 1 : 0;
  if (quotes_ == (triple_ ? 3 : 1)) quote_ = 0;
  return true;
}

std::string json_of_python(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  if (auto json = LiteralReader(text).whole()) return std::move(*json);
  return json_string(text);
}

}  // namespace cheetah
