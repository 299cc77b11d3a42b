// SPDX-License-Identifier: MIT
#pragma once
// Strings as Python sees them: sequences of code points, stored as UTF-8.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cheetah::jinja {

// The code point at `at`, which moves past it. A byte that starts no valid sequence reads as U+FFFD.
char32_t next_code_point(std::string_view bytes, size_t& at);
void append_utf8(std::string& out, char32_t code_point);
std::u32string decode(std::string_view bytes);
std::string encode(std::u32string_view text);
int64_t count_code_points(std::string_view bytes);

bool is_space(char32_t c);
bool is_printable(char32_t c);
bool is_alpha(char32_t c);
bool is_decimal(char32_t c);
bool is_digit(char32_t c);
bool is_numeric(char32_t c);
bool is_lower(char32_t c);
bool is_upper(char32_t c);
bool is_cased(char32_t c);
bool is_word(char32_t c);  // \w of a regular expression
bool is_identifier(std::string_view bytes);

std::string upper(std::string_view bytes);
std::string lower(std::string_view bytes);
std::string casefold(std::string_view bytes);
std::string title(std::string_view bytes);
std::string swapcase(std::string_view bytes);
std::string capitalize(std::string_view bytes);

enum class Side { kBoth, kLeft, kRight };
std::string_view strip(std::string_view bytes, Side side = Side::kBoth);
std::string_view strip(std::string_view bytes, std::string_view characters, Side side = Side::kBoth);

std::vector<std::string_view> split_lines(std::string_view bytes, bool keep_ends = false);
std::string replace_all(
    std::string_view bytes, std::string_view from, std::string_view to, int64_t count = -1);
std::string escape_html(std::string_view bytes);

}  // namespace cheetah::jinja
