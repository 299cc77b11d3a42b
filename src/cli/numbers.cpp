// SPDX-License-Identifier: MIT
#include "cli/numbers.h"

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdlib>

#include "base/error.h"
#include "base/format.h"

namespace cheetah {
namespace {

struct Unit {
  const char* suffix;
  double factor;
};

constexpr Unit kCountUnits[] = {
    {"", 1}, {"k", 1e3}, {"K", 1024.0}, {"m", 1e6}, {"M", 0x1p20}, {"g", 1e9}, {"G", 0x1p30}};
constexpr Unit kByteUnits[] = {{"", 1}, {"B", 1}, {"K", 0x1p10}, {"KiB", 0x1p10}, {"KB", 1e3}, {"M", 0x1p20},
    {"MiB", 0x1p20}, {"MB", 1e6}, {"G", 0x1p30}, {"GiB", 0x1p30}, {"GB", 1e9}, {"T", 0x1p40}, {"TiB", 0x1p40},
    {"TB", 1e12}};

// The number scaled by its unit; NaN when the text is not a plain decimal number with a known unit.
template <size_t N>
double scaled(const std::string& text, const Unit (&units)[N]) {
  const size_t digits = text.find_first_not_of("0123456789.");
  const std::string number = text.substr(0, digits);
  const std::string suffix = digits == std::string::npos ? "" : text.substr(digits);
  char* end = nullptr;
  const double value = std::strtod(number.c_str(), &end);
  if (number.empty() || *end != '\0') return std::nan("");
  for (const Unit& unit : units)
    if (suffix == unit.suffix) return value * unit.factor;
  return std::nan("");
}

}  // namespace

int64_t parse_count(const std::string& flag, const std::string& text, int64_t low, int64_t high) {
  const double value = scaled(text, kCountUnits);
  if (!(value >= static_cast<double>(low) && value <= static_cast<double>(high)) ||
      value != std::floor(value))
    throw UsageError(format("{}: '{}' is not a whole number from {} to {} (32k is 32,000, 32K is 32,768)",
        flag, printable(text), low, high));
  return static_cast<int64_t>(value);
}

int64_t parse_bytes(const std::string& flag, const std::string& text) {
  const double value = scaled(text, kByteUnits);
  if (!(value >= 1 && value < 0x1p60))
    throw UsageError(format("{}: '{}' is not a size such as 24GiB, 80GB or 512M", flag, printable(text)));
  return static_cast<int64_t>(value);
}

void accept_counts(CLI::Option* option, int64_t low, int64_t high) {
  option->transform([=](std::string text) {
    try {
      return std::to_string(parse_count(option->get_name(), text, low, high));
    } catch (const UsageError& error) {
      throw CLI::ValidationError(error.what());
    }
  });
}

}  // namespace cheetah
