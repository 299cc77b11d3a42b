// SPDX-License-Identifier: MIT
#pragma once
// Pieces of JSON written straight into a string: what a stream sends for every token builds no tree.
#include <cstdint>
#include <string>
#include <string_view>

namespace cheetah {

// With quotes; bytes that are not UTF-8 become U+FFFD.
void append_quoted(std::string& out, std::string_view text);
std::string json_string(std::string_view text);
// Finite, in the fewest digits; minus infinity is written -9999, as clients know it.
void append_number(std::string& out, double value);
// "data: " and the end of the frame around `json`.
std::string sse_data(std::string_view json);
// With an "event: " line before it.
std::string sse_event(std::string_view name, std::string_view json);

}  // namespace cheetah
