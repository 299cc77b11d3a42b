// SPDX-License-Identifier: MIT
#pragma once
// Everything the commands print goes through here, so that a closed pipe, a full disk and control characters
// in model text are handled in one place.
#include <string>
#include <string_view>

namespace cheetah {

// The reader of standard output is gone. Not an error: main ends quietly with 0.
struct OutputClosed {};

// Standard output. Throws OutputClosed, or Error when writing fails for another reason (a full disk).
void print(std::string_view text);
void flush_output();
// A report: lines that the terminal would break in mid-word are broken between words.
void print_report(std::string_view text);

// "cheetah: error: …" and "cheetah: …" as one line on standard error, control characters escaped.
void print_error(std::string_view message);
void print_note(std::string_view message);
// Redraws one line of standard error where that is a terminal, cut to its width; "" clears it.
void show_status(std::string_view line);

bool stdout_is_terminal();
bool stderr_is_terminal();
bool stdin_is_terminal();

// Standard output is a terminal that wants colour: NO_COLOR unset, TERM not dumb.
bool wants_colour();

enum class Style { kPlain, kBold, kDim, kGreen, kRed, kCyan };
// The text in colour when standard output is a terminal that wants it (NO_COLOR unset, TERM not dumb).
std::string styled(std::string_view text, Style style);

// Model text made harmless for a terminal: C0 and C1 controls and DEL dropped, newline and tab kept. Takes
// whole UTF-8 characters, as StreamDecoder gives them.
std::string without_controls(std::string_view text);

// Prints text that a model wrote: filtered on a terminal unless `raw`.
void print_model_text(std::string_view text, bool raw);

}  // namespace cheetah
