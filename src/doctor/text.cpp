// SPDX-License-Identifier: MIT
#include "doctor/text.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"

namespace cheetah::doctor {
namespace {

constexpr size_t kMaxCpus = 16384;
constexpr size_t kMaxLine = 4096;

}  // namespace

std::optional<std::vector<int>> to_cpus(std::string_view text) {
  text = trimmed(text);
  std::vector<int> cpus;
  if (text.empty()) return cpus;
  for (const std::string_view part : split(text, ',')) {
    const size_t dash = part.find('-');
    const auto first = to_integer(part.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : to_integer(part.substr(dash + 1));
    if (!first || !last || *first < 0 || *last < *first || *last >= static_cast<int64_t>(kMaxCpus))
      return std::nullopt;
    for (int64_t cpu = *first; cpu <= *last; ++cpu) cpus.push_back(static_cast<int>(cpu));
    if (cpus.size() > kMaxCpus) return std::nullopt;
  }
  std::sort(cpus.begin(), cpus.end());
  cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
  return cpus;
}

std::string to_list(const std::vector<int>& cpus) {
  std::string text;
  for (size_t i = 0; i < cpus.size();) {
    size_t end = i;
    while (end + 1 < cpus.size() && cpus[end + 1] == cpus[end] + 1) ++end;
    if (!text.empty()) text += ',';
    text += end == i ? format("{}", cpus[i]) : format("{}-{}", cpus[i], cpus[end]);
    i = end + 1;
  }
  return text;
}

bool is_subset(const std::vector<int>& part, const std::vector<int>& whole) {
  return std::includes(whole.begin(), whole.end(), part.begin(), part.end());
}

std::string chosen(std::string_view text) {
  const size_t open = text.find('[');
  const size_t close = text.find(']', open == std::string_view::npos ? 0 : open);
  if (open == std::string_view::npos || close == std::string_view::npos) return std::string(trimmed(text));
  return std::string(text.substr(open + 1, close - open - 1));
}

Fields fields_of(std::string_view text, char separator) {
  Fields fields;
  for (const std::string_view line : lines_of(text)) {
    const std::string_view start = trimmed(line);
    const size_t at = separator == ' ' ? start.find_first_of(" \t") : start.find(separator);
    if (at == std::string_view::npos || at == 0) continue;
    fields.emplace(std::string(trimmed(start.substr(0, at))), std::string(trimmed(start.substr(at + 1))));
  }
  return fields;
}

std::optional<double> number_in(const Fields& fields, std::string_view key) {
  const auto found = fields.find(key);
  if (found == fields.end()) return std::nullopt;
  const auto words = words_of(found->second);
  return words.empty() ? std::nullopt : to_number(words[0]);
}

Value<std::string> read_line(const Source& source, const std::string& path) {
  const Text text = source.read(path, kMaxLine);
  if (!text.ok()) return Value<std::string>::absent(text);
  const std::string_view all = text.text;
  if (trimmed(all).empty()) return Value<std::string>::unreadable(path, "it is empty");
  return {printable(trimmed(all.substr(0, all.find('\n'))), kMaxLine), path};
}

Value<int64_t> read_integer(const Source& source, const std::string& path) {
  const Text text = source.read(path, kMaxLine);
  if (!text.ok()) return Value<int64_t>::absent(text);
  const auto value = to_integer(text.text);
  if (!value)
    return Value<int64_t>::unreadable(path, "expected a whole number, found '" + printable(text.text) + "'");
  return {*value, path};
}

Value<double> read_number(const Source& source, const std::string& path) {
  const Text text = source.read(path, kMaxLine);
  if (!text.ok()) return Value<double>::absent(text);
  const auto value = to_number(text.text);
  if (!value)
    return Value<double>::unreadable(path, "expected a number, found '" + printable(text.text) + "'");
  return {*value, path};
}

Value<std::string> read_chosen(const Source& source, const std::string& path) {
  const Text text = source.read(path, kMaxLine);
  if (!text.ok()) return Value<std::string>::absent(text);
  if (trimmed(text.text).empty()) return Value<std::string>::unreadable(path, "it is empty");
  return {printable(chosen(text.text)), path};
}

Value<std::vector<int>> read_cpus(const Source& source, const std::string& path) {
  const Text text = source.read(path, kMaxFileBytes);
  if (!text.ok()) return Value<std::vector<int>>::absent(text);
  auto cpus = to_cpus(text.text);
  if (!cpus)
    return Value<std::vector<int>>::unreadable(
        path, "expected a list such as 0-3,8, found '" + printable(text.text) + "'");
  return {std::move(*cpus), path};
}

Value<Fields> read_fields(const Source& source, const std::string& path, char separator, int64_t limit) {
  const Text text = source.read(path, limit);
  if (!text.ok()) return Value<Fields>::absent(text);
  Fields fields = fields_of(text.text, separator);
  if (fields.empty() && !trimmed(text.text).empty())
    return Value<Fields>::unreadable(
        path, "expected lines of names and values, found '" + printable(text.text) + "'");
  return {std::move(fields), path};
}

int compare_versions(std::string_view a, std::string_view b) {
  const auto next = [](std::string_view& text) {
    int64_t part = 0;
    while (!text.empty() && (text[0] < '0' || text[0] > '9')) text.remove_prefix(1);
    while (!text.empty() && text[0] >= '0' && text[0] <= '9') {
      part = std::min<int64_t>(part * 10 + (text[0] - '0'), 1'000'000'000);
      text.remove_prefix(1);
    }
    return part;
  };
  for (int i = 0; i < 4; ++i) {
    const int64_t left = next(a), right = next(b);
    if (left != right) return left < right ? -1 : 1;
  }
  return 0;
}

}  // namespace cheetah::doctor
