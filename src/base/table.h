// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <vector>

namespace cheetah {

// An aligned text table: first column left, the others right, widths counted in terminal columns. Where it is wider than
// the terminal, words of headers and cells go to further lines, and what still does not fit is cut.
class Table {
 public:
  explicit Table(std::vector<std::string> header) : header_(std::move(header)) {}
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  std::string render() const;             // for standard output: as wide as its terminal, or without limit
  std::string render(int columns) const;  // 0: without limit

 private:
  std::vector<std::string> header_;
  std::vector<std::vector<std::string>> rows_;
};

// 1536 -> "1.5 KiB".
std::string human_bytes(double bytes);
// 8030261248 -> "8.03 B" (counts: thousand, million, billion, trillion).
std::string human_count(double count);

}  // namespace cheetah
