// SPDX-License-Identifier: MIT
#include "engine/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace cheetah {

StopMatcher::StopMatcher(std::vector<std::string> stops, bool include)
    : stops_(std::move(stops)), include_(include) {
  std::erase(stops_, "");
}

std::string StopMatcher::push(std::string_view piece) {
  if (stopped_) return "";
  if (stops_.empty()) return std::string(piece);
  held_ += piece;
  // The stop that is complete first ends the text; of two that are complete at once, the one that began
  // first.
  size_t end = std::string::npos, begin = 0;
  for (const std::string& stop : stops_) {
    const size_t at = held_.find(stop);
    if (at == std::string::npos) continue;
    if (end != std::string::npos && (at + stop.size() > end || (at + stop.size() == end && at >= begin)))
      continue;
    begin = at;
    end = at + stop.size();
    matched_ = stop;
  }
  if (end != std::string::npos) {
    stopped_ = true;
    held_.resize(include_ ? end : begin);
    return std::exchange(held_, "");
  }
  const size_t shown = held_.size() - held_length();
  std::string text = held_.substr(0, shown);
  held_.erase(0, shown);
  return text;
}

std::string StopMatcher::finish() { return stopped_ ? "" : std::exchange(held_, ""); }

// The longest end of held_ that begins a stop string.
size_t StopMatcher::held_length() const {
  size_t keep = 0;
  for (const std::string& stop : stops_)
    for (size_t length = std::min(stop.size() - 1, held_.size()); length > keep; --length)
      if (held_.ends_with(std::string_view(stop).substr(0, length))) keep = length;
  return keep;
}

}  // namespace cheetah
