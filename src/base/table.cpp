// SPDX-License-Identifier: MIT
#include "base/table.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "base/format.h"
#include "base/terminal.h"
#include "base/text.h"

namespace cheetah {
namespace {

using Row = std::vector<std::string>;
constexpr int kGap = 2;

std::string padded(std::string_view text, int width, bool left) {
  const std::string space(static_cast<size_t>(std::max(0, width - columns_of(text))), ' ');
  return left ? std::string(text) + space : space + std::string(text);
}

int longest_word(const std::string& text) {
  int longest = 0;
  for (const std::string_view word : words_of(text)) longest = std::max(longest, columns_of(word));
  return longest;
}

// The widest value of `measure` over each column's cells.
template <class Measure>
std::vector<int> widest(const Row& header, const std::vector<Row>& rows, Measure measure) {
  std::vector<int> widths(header.size(), 0);
  const auto widen = [&](const Row& row) {
    for (size_t i = 0; i < row.size() && i < widths.size(); ++i)
      widths[i] = std::max(widths[i], measure(row[i]));
  };
  widen(header);
  for (const Row& row : rows) widen(row);
  return widths;
}

int total(const std::vector<int>& widths) {
  return std::accumulate(widths.begin(), widths.end(), kGap * (static_cast<int>(widths.size()) - 1));
}

// Takes columns from the widest until all fit or each is at its least.
void shrink(std::vector<int>& widths, const std::vector<int>& least, int columns) {
  for (int over = total(widths) - columns; over > 0; --over) {
    int* widest = nullptr;
    for (size_t i = 0; i < widths.size(); ++i)
      if (widths[i] > least[i] && (widest == nullptr || widths[i] > *widest)) widest = &widths[i];
    if (widest == nullptr) return;
    --*widest;
  }
}

std::vector<int> fitting_widths(const Row& header, const std::vector<Row>& rows, int columns) {
  std::vector<int> widths = widest(header, rows, [](const std::string& cell) { return columns_of(cell); });
  if (columns <= 0 || total(widths) <= columns) return widths;
  constexpr int kShortest = 6;  // of a cell that is cut
  std::vector<int> least = widest(header, rows, longest_word);
  shrink(widths, least, columns);
  for (int& width : least) width = std::min(width, kShortest);
  shrink(widths, least, columns);
  return widths;
}

void write_row(std::string& out, const Row& row, const std::vector<int>& widths) {
  std::vector<std::vector<std::string>> cells;  // the lines of each
  size_t height = 1;
  for (size_t i = 0; i < row.size() && i < widths.size(); ++i) {
    const bool fits = longest_word(row[i]) <= widths[i];  // else it is cut
    const std::string text =
        columns_of(row[i]) <= widths[i] || !fits ? row[i] : wrapped(row[i], widths[i], 0);
    std::vector<std::string>& lines = cells.emplace_back();
    for (const std::string_view line : split(text, '\n')) lines.push_back(shortened(line, widths[i]));
    height = std::max(height, lines.size());
  }
  for (size_t at = 0; at < height; ++at) {
    std::string line;
    for (size_t i = 0; i < cells.size(); ++i)
      line += std::string(i ? kGap : 0, ' ') +
              padded(at < cells[i].size() ? cells[i][at] : "", widths[i], i == 0);
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
}

}  // namespace

std::string Table::render() const { return render(terminal_columns(STDOUT_FILENO)); }

std::string Table::render(int columns) const {
  const std::vector<int> widths = fitting_widths(header_, rows_, columns);
  std::string out;
  write_row(out, header_, widths);
  Row rule;
  for (const int width : widths) rule.emplace_back(static_cast<size_t>(width), '-');
  write_row(out, rule, widths);
  for (const Row& row : rows_) write_row(out, row, widths);
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
