// SPDX-License-Identifier: MIT
#pragma once
// Splits and parses text without copies. Nothing here throws, whatever the bytes.
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace cheetah {

std::string_view trimmed(std::string_view text);
std::vector<std::string_view> split(std::string_view text, char separator);
std::vector<std::string_view> lines_of(std::string_view text);
std::vector<std::string_view> words_of(std::string_view line);
bool starts_with(std::string_view text, std::string_view prefix);
bool contains(std::string_view text, std::string_view part);
// Insertions, deletions, substitutions and swaps of neighbouring bytes that turn one text into the other.
int64_t edit_distance(std::string_view a, std::string_view b);

std::optional<int64_t> to_integer(std::string_view text);  // all of it, base 10 or 0x
std::optional<double> to_number(std::string_view text);    // finite, all of it

}  // namespace cheetah
