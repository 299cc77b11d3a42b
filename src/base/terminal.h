// SPDX-License-Identifier: MIT
#pragma once
// Text that fits the terminal it is shown on. Columns are those of the characters: wide ones take two, combining ones none.
#include <string>
#include <string_view>

namespace cheetah {

// Of the terminal behind the descriptor; 0: it is not a terminal, or does not say.
int terminal_columns(int descriptor);

int columns_of(std::string_view text);
// The text, or as much of its beginning as fits, with an ellipsis.
std::string shortened(std::string_view text, int columns);
// Breaks lines between words; further lines of a broken one begin with `indent` spaces. A word that is
// longer than a line is broken anywhere.
std::string wrapped(std::string_view text, int columns, int indent);
// Wraps what a terminal would break in mid-word; each line's own indent is kept. Unlimited for 0 columns.
std::string fitted(std::string_view text, int columns);

}  // namespace cheetah
