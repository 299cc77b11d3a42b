// SPDX-License-Identifier: MIT
#pragma once
// Reading the small text formats of /proc and /sys: nothing here throws, whatever the bytes.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "doctor/value.h"

namespace cheetah::doctor {

// "0-3,8" -> 0 1 2 3 8; nullopt when malformed or past 16,384 numbers.
std::optional<std::vector<int>> to_cpus(std::string_view text);
std::string to_list(const std::vector<int>& cpus);  // the inverse
bool is_subset(const std::vector<int>& part, const std::vector<int>& whole);

// "always [madvise] never" -> "madvise"; a text without brackets is its own choice.
std::string chosen(std::string_view text);

// "KEY: value" or "KEY value" or "KEY=value" lines; the first of two equal keys wins.
using Fields = std::map<std::string, std::string, std::less<>>;
Fields fields_of(std::string_view text, char separator);
std::optional<double> number_in(const Fields& fields, std::string_view key);  // the first word as a number

// First line of a file, trimmed, without control characters.
Value<std::string> read_line(const Source& source, const std::string& path);
Value<int64_t> read_integer(const Source& source, const std::string& path);
Value<double> read_number(const Source& source, const std::string& path);
Value<std::string> read_chosen(const Source& source, const std::string& path);
Value<std::vector<int>> read_cpus(const Source& source, const std::string& path);
Value<Fields> read_fields(
    const Source& source, const std::string& path, char separator, int64_t limit = kMaxFileBytes);

// 0 when the versions are equal, below 0 when a is older: "5.15.0-91" against "5.4".
int compare_versions(std::string_view a, std::string_view b);

}  // namespace cheetah::doctor
