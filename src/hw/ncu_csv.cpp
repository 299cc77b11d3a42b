// SPDX-License-Identifier: MIT
#include "hw/ncu_csv.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace cheetah {
namespace {

using Cells = std::vector<std::string>;

constexpr size_t kMaxKernels = 10000;
constexpr size_t kMaxCells = 20000;
constexpr size_t kMaxRecordBytes = size_t{4} << 20;

// Takes one record off the text. A quoted cell may hold commas, "" for a quote and line ends.
Cells take_record(std::string_view& text) {
  Cells cells(1);
  bool quoted = false;
  size_t i = 0;
  for (; i < text.size() && i < kMaxRecordBytes; ++i) {
    const char c = text[i];
    if (c == '"' && quoted && i + 1 < text.size() && text[i + 1] == '"') {
      cells.back() += '"';
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (c == '\n' && !quoted) {
      ++i;
      break;
    } else if (c == ',' && !quoted && cells.size() < kMaxCells) {
      cells.emplace_back();
    } else if (c != '\r') {
      cells.back() += c;
    }
  }
  text.remove_prefix(i);
  return cells;
}

void skip_line(std::string_view& text) {
  const size_t end = text.find('\n');
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
}

// "1,234.5" as ncu writes it for people.
std::optional<double> csv_number(std::string text) {
  std::erase(text, ',');
  return to_number(text);
}

// One side of a unit's fraction line: "Kbyte" -> byte and 1e3, "usecond" and "us" -> ns and 1e3.
struct Unit {
  std::string_view base;
  double scale = 1;
};

Unit unit_of(std::string_view text) {
  constexpr std::pair<char, double> kPrefixes[] = {{'K', 1e3}, {'k', 1e3}, {'M', 1e6}, {'G', 1e9},
      {'T', 1e12}, {'m', 1e-3}, {'u', 1e-6}, {'n', 1e-9}, {'p', 1e-12}};
  constexpr std::string_view kBases[] = {
      "byte", "second", "s", "hz", "Hz", "inst", "cycle", "sector", "request"};
  const auto is_base = [&](std::string_view word) {
    return std::ranges::find(kBases, word) != std::end(kBases);
  };
  Unit unit{text, 1};
  if (!is_base(text) && text.size() > 1 && is_base(text.substr(1)))
    for (const auto& [prefix, scale] : kPrefixes)
      if (text[0] == prefix) unit = {text.substr(1), scale};
  if (unit.base == "s") unit.base = "second";
  return unit;
}

// What to multiply by, and the name of the unit that gives.
std::pair<double, std::string> base_unit(std::string_view text) {
  const size_t line = text.find('/');
  Unit above = unit_of(trimmed(text.substr(0, line)));
  if (line == std::string_view::npos)
    return above.base == "second" ? std::pair{above.scale * 1e9, std::string("ns")}
                                  : std::pair{above.scale, std::string(above.base)};
  const Unit below = unit_of(trimmed(text.substr(line + 1)));
  return {above.scale / below.scale, std::string(above.base) + "/" + std::string(below.base)};
}

void store(
    KernelCounters& kernel, const std::string& name, const std::string& text, const std::string& unit_text) {
  const auto number = csv_number(text);
  if (!number || name.empty()) return;
  const auto [scale, unit] = base_unit(unit_text);
  const double value = *number * scale;
  if (!kernel.metrics.try_emplace(name, value).second)
    kernel.metrics.try_emplace(name + " [" + unit + "]", value);
}

// The table as it is read row by row.
class NcuTable {
 public:
  explicit NcuTable(Cells header)
      : header_(std::move(header)),
        id_(column("ID")),
        name_(column("Kernel Name")),
        metric_(column("Metric Name")),
        unit_(column("Metric Unit")),
        value_(column("Metric Value")),
        block_(column("Block Size")),
        grid_(column("Grid Size")),
        capability_(column("CC")) {}

  void add(const Cells& cells) {
    if (metric_ < header_.size())
      add_metric(cells);
    else
      add_kernel(cells);
  }
  std::vector<KernelCounters> take() { return std::move(kernels_); }

 private:
  size_t column(std::string_view name) const {
    return static_cast<size_t>(std::find(header_.begin(), header_.end(), name) - header_.begin());
  }
  static std::string cell(const Cells& cells, size_t at) {
    return at < cells.size() ? cells[at] : std::string();
  }

  KernelCounters begin_kernel(const Cells& cells) const {
    KernelCounters kernel;
    kernel.name = printable(cell(cells, name_), 200);
    kernel.block_size = printable(cell(cells, block_));
    kernel.grid_size = printable(cell(cells, grid_));
    kernel.compute_capability = printable(cell(cells, capability_));
    return kernel;
  }

  void add_metric(const Cells& cells) {
    if (std::max({name_, metric_, value_}) >= cells.size()) return;
    const std::string key = cell(cells, id_) + "\n" + cells[name_];
    auto found = index_.find(key);
    if (found == index_.end()) {
      if (kernels_.size() >= kMaxKernels || !csv_number(cells[value_])) return;
      found = index_.emplace(key, kernels_.size()).first;
      kernels_.push_back(begin_kernel(cells));
    }
    store(kernels_[found->second], cells[metric_], cells[value_], cell(cells, unit_));
  }

  void add_kernel(const Cells& cells) {
    if (name_ >= cells.size() || kernels_.size() >= kMaxKernels) return;
    if (cells[name_].empty()) {  // the row of units below the names
      if (kernels_.empty()) units_ = cells;
      return;
    }
    KernelCounters kernel = begin_kernel(cells);
    for (size_t i = 0; i < cells.size() && i < header_.size(); ++i)
      store(kernel, header_[i], cells[i], cell(units_, i));
    kernels_.push_back(std::move(kernel));
  }

  Cells header_, units_;
  size_t id_, name_, metric_, unit_, value_, block_, grid_, capability_;
  std::map<std::string, size_t> index_;
  std::vector<KernelCounters> kernels_;
};

}  // namespace

std::optional<double> KernelCounters::find(std::initializer_list<std::string_view> names) const {
  for (const std::string_view wanted : names)
    if (const auto found = metrics.find(wanted); found != metrics.end()) return found->second;
  return std::nullopt;
}

std::vector<KernelCounters> read_ncu_csv(std::string_view text) {
  std::optional<NcuTable> table;
  while (!text.empty()) {
    // ncu quotes every cell; what the profiled program prints in between may hold lone quotes.
    if (text[0] != '"') {
      skip_line(text);
      continue;
    }
    Cells cells = take_record(text);
    if (table)
      table->add(cells);
    else if (std::ranges::find(cells, "Kernel Name") != cells.end())
      table.emplace(std::move(cells));
  }
  return table ? table->take() : std::vector<KernelCounters>();
}

}  // namespace cheetah
