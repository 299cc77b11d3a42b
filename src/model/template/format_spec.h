// SPDX-License-Identifier: MIT
#pragma once
// The mini-language behind "{:>10.3f}", and the number formats that % shares with it.
#include <cstdint>
#include <string>
#include <string_view>

namespace cheetah::jinja {

struct FormatSpec {
  std::string fill = " ";
  char align = '\0';  // < > ^ = or none given
  char sign = '-';
  bool alternate = false;
  int64_t width = 0;
  char group = '\0';  // , or _
  int precision = -1;
  char type = '\0';
};

inline constexpr int64_t kMaxFormatWidth = 1 << 20;  // of one field
inline constexpr int kMaxPrecision = 1000;

FormatSpec parse_format_spec(std::string_view spec);
std::string pad_text(const std::string& text, const FormatSpec& spec);
std::string format_integer(int64_t value, const FormatSpec& spec);
std::string format_double(double value, const FormatSpec& spec);

}  // namespace cheetah::jinja
