#include "base/table.h"

#include <algorithm>
#include <array>

#include "base/format.h"

namespace cheetah {
namespace {

size_t columns_of(
    const std::string& text) {  // code points stand for columns: our tables hold no wide characters
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string padded(const std::string& text, size_t width, bool left) {
  const std::string space(width - std::min(width, columns_of(text)), ' ');
  return left ? text + space : space + text;
}

}  // namespace

std::string Table::render() const {
  std::vector<size_t> widths(header_.size(), 0);
  const auto widen = [&](const std::vector<std::string>& row) {
    for (size_t i = 0; i < row.size() && i < widths.size(); ++i)
      widths[i] = std::max(widths[i], columns_of(row[i]));
  };
  widen(header_);
  for (const auto& row : rows_) widen(row);
  std::string out;
  const auto write = [&](const std::vector<std::string>& row) {
    std::string line;
    for (size_t i = 0; i < row.size() && i < widths.size(); ++i)
      line += (i ? "  " : "") + padded(row[i], widths[i], i == 0);
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  };
  write(header_);
  std::vector<std::string> rule;
  for (const size_t width : widths) rule.emplace_back(width, '-');
  write(rule);
  for (const auto& row : rows_) write(row);
  return out;
}

std::string human_bytes(double bytes) {
  constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < kUnits.size(); ++unit) bytes /= 1024;
  return unit == 0 ? format("{:.0f} B", bytes) : format("{:.1f} {}", bytes, kUnits[unit]);
}

std::string human_count(double count) {
  constexpr std::array kUnits = {"", " k", " M", " B", " T"};
  size_t unit = 0;
  for (; count >= 1000 && unit + 1 < kUnits.size(); ++unit) count /= 1000;
  return unit == 0 ? format("{:.0f}", count) : format("{:.2f}{}", count, kUnits[unit]);
}

}  // namespace cheetah
