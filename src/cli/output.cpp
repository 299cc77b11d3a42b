// SPDX-License-Identifier: MIT
#include "cli/output.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "base/format.h"
#include "base/terminal.h"

namespace cheetah {
namespace {

// Long enough for a list of paths or supported names, short enough for one glance.
constexpr size_t kMaxMessageBytes = 4000;

[[noreturn]] void write_failed() {
  if (errno == EPIPE) throw OutputClosed{};
  throw Error(format("standard output: {}", std::strerror(errno)));
}

void print_line(std::string_view prefix, std::string_view message) {
  const std::string line = format("{}{}\n", prefix, printable(message, kMaxMessageBytes));
  std::fwrite(line.data(), 1, line.size(), stderr);
}

const char* escape_of(Style style) {
  switch (style) {
    case Style::kBold:
      return "\033[1m";
    case Style::kDim:
      return "\033[2m";
    case Style::kGreen:
      return "\033[32m";
    case Style::kRed:
      return "\033[31m";
    case Style::kCyan:
      return "\033[36m";
    case Style::kPlain:
      break;
  }
  return "";
}

}  // namespace

void print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) write_failed();
}

void print_report(std::string_view text) { print(fitted(text, terminal_columns(STDOUT_FILENO))); }

void flush_output() {
  if (std::fflush(stdout) != 0) write_failed();
}

void print_error(std::string_view message) { print_line("cheetah: error: ", message); }
void print_note(std::string_view message) { print_line("cheetah: ", message); }

void show_status(std::string_view line) {
  if (!stderr_is_terminal()) return;
  const int columns = terminal_columns(STDERR_FILENO);
  const std::string shown =
      columns > 0 ? shortened(line, columns - 1) : std::string(line);  // a full line would wrap
  std::fprintf(stderr, "\r\033[K%s", shown.c_str());
}

bool stdout_is_terminal() { return isatty(STDOUT_FILENO) == 1; }
bool stderr_is_terminal() { return isatty(STDERR_FILENO) == 1; }
bool stdin_is_terminal() { return isatty(STDIN_FILENO) == 1; }

bool wants_colour() {
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  if (no_color && *no_color) return false;
  return stdout_is_terminal() && term && std::strcmp(term, "dumb") != 0;
}

std::string styled(std::string_view text, Style style) {
  static const bool colour = wants_colour();
  if (!colour || style == Style::kPlain) return std::string(text);
  return format("{}{}\033[0m", escape_of(style), text);
}

std::string without_controls(std::string_view text) {
  std::string kept;
  kept.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool c0 = (byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7F;
    if (c0) continue;
    if (byte == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0) {
      ++i;  // U+0080..U+009F, which terminals take as escape sequences
      continue;
    }
    kept += text[i];
  }
  return kept;
}

void print_model_text(std::string_view text, bool raw) {
  if (raw || !stdout_is_terminal())
    print(text);
  else
    print(without_controls(text));
  flush_output();
}

}  // namespace cheetah
