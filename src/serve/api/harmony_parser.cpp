// SPDX-License-Identifier: MIT
#include "serve/api/harmony_parser.h"

#include <algorithm>
#include <array>

#include "serve/api/marks.h"

namespace cheetah {
namespace {

using Kind = OutputDelta::Kind;

constexpr std::string_view kMessage = "<|message|>";
constexpr std::string_view kRecipient = "to=functions.";
constexpr std::array<std::string_view, 4> kEnds = {"<|end|>", "<|call|>", "<|return|>", "<|start|>"};
constexpr size_t kMaxHeaderBytes = 1024;

}  // namespace

void HarmonyParser::push(std::string_view text, std::vector<OutputDelta>& out) {
  held_ += text;
  while (advance(false, out)) {
  }
}

void HarmonyParser::finish(bool cut, std::vector<OutputDelta>& out) {
  while (advance(true, out)) {
  }
  if (!cut && in_body_ && kind_ == Kind::kToolArguments && !wrote_) emit("{}", out);
}

bool HarmonyParser::advance(bool last, std::vector<OutputDelta>& out) {
  return in_body_ ? in_body(last, out) : in_header(last, out);
}

bool HarmonyParser::in_header(bool last, std::vector<OutputDelta>& out) {
  // Words where the first header should stand: the model does not keep to its format.
  const size_t first = leading_space(held_);
  const bool is_text = !any_ && first < held_.size() && held_[first] != '<';
  const size_t end = held_.find(kMessage);
  if (is_text || std::min(end, held_.size()) > kMaxHeaderBytes) {
    in_body_ = any_ = true;
    kind_ = Kind::kContent;
    return true;
  }
  if (end == std::string::npos) {
    if (last) held_.clear();
    return false;
  }
  open(std::string_view(held_).substr(0, end), out);
  held_.erase(0, end + kMessage.size());
  return true;
}

void HarmonyParser::open(std::string_view header, std::vector<OutputDelta>& out) {
  in_body_ = any_ = true;
  wrote_ = false;
  const size_t recipient = header.find(kRecipient);
  if (recipient != std::string_view::npos) {
    std::string_view name = header.substr(recipient + kRecipient.size());
    name = name.substr(0, name.find_first_of(" \t\r\n<"));
    out.push_back({.kind = Kind::kToolCall, .text = std::string(name), .call = num_calls_++});
    kind_ = Kind::kToolArguments;
    return;
  }
  kind_ = header.find("analysis") != std::string_view::npos ? Kind::kReasoning : Kind::kContent;
}

bool HarmonyParser::in_body(bool last, std::vector<OutputDelta>& out) {
  size_t first = std::string::npos, length = 0, partial = 0;
  for (const std::string_view end : kEnds) {
    if (const size_t at = held_.find(end); at < first) {
      first = at;
      length = end.size();
    }
    partial = std::max(partial, partial_match(held_, end));
  }
  const bool ended = first != std::string::npos;
  const size_t shown = ended ? first : held_.size() - (last ? 0 : partial);
  emit(std::string_view(held_).substr(0, shown), out);
  held_.erase(0, ended ? first + length : shown);
  if (!ended) return false;
  if (kind_ == Kind::kToolArguments && !wrote_) emit("{}", out);
  in_body_ = false;
  return true;
}

void HarmonyParser::emit(std::string_view text, std::vector<OutputDelta>& out) {
  if (text.empty()) return;
  wrote_ = true;
  const int call = kind_ == Kind::kToolArguments ? num_calls_ - 1 : 0;
  if (!out.empty() && out.back().kind == kind_ && out.back().call == call)
    out.back().text += text;
  else
    out.push_back({.kind = kind_, .text = std::string(text), .call = call});
}

}  // namespace cheetah
