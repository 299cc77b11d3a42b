// SPDX-License-Identifier: MIT
#pragma once
// Looking for marks in text that is still growing.
#include <algorithm>
#include <string_view>

namespace cheetah {

// How many bytes at the end of `text` may be the beginning of `mark`, which is not empty.
inline size_t partial_match(std::string_view text, std::string_view mark) {
  for (size_t length = std::min(text.size(), mark.size() - 1); length > 0; --length)
    if (text.ends_with(mark.substr(0, length))) return length;
  return 0;
}

// Whether the text begins with the mark, or may once there is more of it.
inline bool is_part_of(std::string_view text, std::string_view mark) {
  return text.starts_with(mark) || mark.starts_with(text);
}

inline size_t leading_space(std::string_view text) {
  return std::min(text.find_first_not_of(" \t\r\n"), text.size());
}

// Length of the text without the white space at its end.
inline size_t without_trailing_space(std::string_view text) {
  return text.find_last_not_of(" \t\r\n") + 1;  // nowhere is -1
}

}  // namespace cheetah
