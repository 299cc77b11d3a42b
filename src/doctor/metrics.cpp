// SPDX-License-Identifier: MIT
#include "doctor/metrics.h"

#include <optional>

#include "base/error.h"
#include "doctor/text.h"

namespace cheetah::doctor {
namespace {

constexpr size_t kMaxSeries = 100'000;
constexpr size_t kMaxLabels = 32;

// name="value",… up to the closing brace; the place after it, or nullopt when malformed.
std::optional<size_t> parse_labels(
    std::string_view line, size_t at, std::map<std::string, std::string>& labels) {
  while (at < line.size() && line[at] != '}') {
    const size_t equals = line.find('=', at);
    if (equals == std::string_view::npos || equals + 1 >= line.size() || line[equals + 1] != '"')
      return std::nullopt;
    const std::string name(trimmed(line.substr(at, equals - at)));
    std::string value;
    for (at = equals + 2; at < line.size() && line[at] != '"'; ++at) {
      if (line[at] == '\\' && at + 1 < line.size()) ++at;
      value += line[at];
    }
    if (at >= line.size()) return std::nullopt;
    if (labels.size() < kMaxLabels) labels.emplace(name, printable(value, 256));
    ++at;
    while (at < line.size() && (line[at] == ',' || line[at] == ' ')) ++at;
  }
  return at < line.size() ? std::optional(at + 1) : std::nullopt;
}

}  // namespace

Metrics Metrics::parse(std::string_view text) {
  Metrics metrics;
  size_t count = 0;
  for (std::string_view line : lines_of(text)) {
    line = trimmed(line);
    if (line.empty() || line[0] == '#' || count >= kMaxSeries) continue;
    const size_t end = line.find_first_of("{ \t");
    if (end == std::string_view::npos || end == 0) continue;
    Series series;
    size_t at = end;
    if (line[end] == '{') {
      const auto after = parse_labels(line, end + 1, series.labels);
      if (!after) continue;
      at = *after;
    }
    const auto words = words_of(line.substr(at));
    const auto value = words.empty() ? std::nullopt : to_number(words[0]);
    if (!value) continue;
    series.value = *value;
    metrics.series_[std::string(line.substr(0, end))].push_back(std::move(series));
    ++count;
  }
  return metrics;
}

const std::vector<Series>* Metrics::find(const std::string& name) const {
  const auto found = series_.find(name);
  return found == series_.end() ? nullptr : &found->second;
}

}  // namespace cheetah::doctor
