// SPDX-License-Identifier: MIT
// Results as a person reads them: aligned, with the unit each name stands for.
#include <array>
#include <charconv>
#include <string_view>

#include "base/format.h"
#include "base/table.h"
#include "doctor/measure.h"

namespace cheetah::doctor {
namespace {

struct Unit {
  std::string_view part;  // of the name
  double scale;
  const char* text;
};

// The first whose part stands in the name.
constexpr std::array kUnits = {
    Unit{"_ns", 1, "ns"},
    Unit{"_us", 1, "us"},
    Unit{".errors", 1, "wrong words"},
    Unit{"memory_test.passes", 1, "passes"},
    Unit{"memory_test.bytes", 1e-9, "GB"},
    Unit{"throttled_s", 1, "s"},
    Unit{".temperature", 1, "C"},
    Unit{"stress.power", 1, "W"},
    Unit{"stress.clock", 1, "MHz"},
    Unit{"_ms", 1, "ms"},
    Unit{"_s", 1, "s"},
    Unit{"_gain", 1, "x"},
    Unit{"random_reads", 1, "reads/s"},
    Unit{"gemm", 1e-12, "TFLOP/s"},
    Unit{".load.", 1, ""},
    Unit{"read_direct", 1, ""},
    Unit{"read", 1e-9, "GB/s"},
    Unit{"write", 1e-9, "GB/s"},
    Unit{"stream", 1e-9, "GB/s"},
    Unit{"copy", 1e-9, "GB/s"},
    Unit{"pinned", 1e-9, "GB/s"},
    Unit{"pageable", 1e-9, "GB/s"},
};

std::string with_unit(std::string_view name, double value) {
  if (name.ends_with("_share")) return format("{:.1f} %", value * 100);
  for (const Unit& unit : kUnits)
    if (name.find(unit.part) != std::string_view::npos)
      return format("{:.4g} {}", value * unit.scale, unit.text);
  return format("{:.4g}", value);
}

}  // namespace

std::string results_table(const MeasuredFacts& measured) {
  Table table({"measured", "result"});
  for (const auto& [name, value] : measured.values) {
    double number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    const bool is_number = error == std::errc{} && end == value.data() + value.size();
    table.add({name, is_number ? with_unit(name, number) : value});
  }
  return table.render();
}

}  // namespace cheetah::doctor
