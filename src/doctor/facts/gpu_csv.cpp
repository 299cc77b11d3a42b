// SPDX-License-Identifier: MIT
// nvidia-smi --query-gpu=… --format=csv, turned into the text form of facts/gpu.h.
#include <algorithm>
#include <cctype>

#include "base/format.h"
#include "doctor/facts/gpu.h"

namespace cheetah::doctor {
namespace {

struct Column {
  const char* query;  // nvidia-smi's name
  const char* field;  // ours
  double unit;        // 0: text
};

// The header of the CSV repeats the query's names, some with a unit in brackets.
constexpr Column kColumns[] = {
    {"name", "name", 0},
    {"pci.bus_id", "pci", 0},
    {"vbios_version", "vbios", 0},
    {"persistence_mode", "persistence", 0},
    {"ecc.mode.current", "ecc.current", 0},
    {"ecc.mode.pending", "ecc.pending", 0},
    {"ecc.errors.uncorrected.volatile.total", "ecc.uncorrected.volatile", 1},
    {"ecc.errors.uncorrected.aggregate.total", "ecc.uncorrected.aggregate", 1},
    {"mig.mode.current", "mig.current", 0},
    {"mig.mode.pending", "mig.pending", 0},
    {"clocks.sm", "clock.sm", 1},
    {"clocks.current.sm", "clock.sm", 1},
    {"clocks.max.sm", "clock.sm.max", 1},
    {"clocks_event_reasons.active", "throttle", 0},
    {"clocks_throttle_reasons.active", "throttle", 0},
    {"power.draw", "power.draw", 1},
    {"power.limit", "power.limit", 1},
    {"power.default_limit", "power.default", 1},
    {"temperature.gpu", "temperature", 1},
    {"temperature.gpu.tlimit", "temperature.margin", 1},
    {"pcie.link.gen.current", "pcie.gen", 1},
    {"pcie.link.gen.max", "pcie.gen.max", 1},
    {"pcie.link.width.current", "pcie.width", 1},
    {"pcie.link.width.max", "pcie.width.max", 1},
    {"memory.total", "memory.total", 1048576},
    {"memory.used", "memory.used", 1048576},
    {"utilization.gpu", "utilization", 1},
    {"compute_cap", "cc", 1},
    {"compute_mode", "compute_mode", 0},
};

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

// "00000000:17:00.0" -> "0000:17:00.0", as sysfs writes it.
std::string sysfs_address(std::string_view bus_id) {
  const std::string address = lower(bus_id);
  return address.size() == 16 ? address.substr(4) : address;
}

// Empty when nvidia-smi has nothing to tell: [N/A], [Not Supported], [Unknown Error].
std::string converted(const Column& column, std::string_view value) {
  value = trimmed(value);
  if (value.empty() || value[0] == '[' || value == "N/A") return "";
  if (std::string_view(column.field) == "pci") return sysfs_address(value);
  if (value == "Enabled") return "1";
  if (value == "Disabled") return "0";
  if (column.unit == 0) return std::string(value);
  const auto words = words_of(value);
  const auto number = words.empty() ? std::nullopt : to_number(words[0]);
  return number ? format("{}", *number * column.unit) : "";
}

const Column* column_named(std::string_view header) {
  const std::string_view name = trimmed(header.substr(0, header.find('[')));
  const auto found = std::find_if(
      std::begin(kColumns), std::end(kColumns), [&](const Column& column) { return column.query == name; });
  return found == std::end(kColumns) ? nullptr : found;
}

}  // namespace

std::string gpu_text_from_csv(std::string_view csv) {
  std::string text;
  const auto lines = lines_of(csv);
  if (lines.empty()) return text;
  const auto headers = split(lines[0], ',');
  for (size_t row = 1; row < lines.size() && row <= 256; ++row) {
    const auto cells = split(lines[row], ',');
    for (size_t i = 0; i < cells.size() && i < headers.size(); ++i) {
      if (trimmed(headers[i]) == "driver_version" && row == 1)
        text += format("driver={}\n", trimmed(cells[i]));
      const Column* column = column_named(headers[i]);
      const std::string value = column == nullptr ? "" : converted(*column, cells[i]);
      if (!value.empty()) text += format("gpu.{}.{}={}\n", row - 1, column->field, value);
    }
  }
  return text;
}

}  // namespace cheetah::doctor
