#include "base/error.h"

#include <cstdio>
#include <cstdlib>

namespace cheetah {

void assertion_failed(const char* condition, const char* why, SourceLocation at) {
  std::fprintf(stderr, "cheetah: bug: %s (%s) at %s:%u in %s\n", why, condition, at.file_name(), at.line(),
               at.function_name());
  std::abort();
}

namespace {

// Length of the valid UTF-8 sequence at the start of text, or 0.
size_t utf8_sequence_length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xF0 && lead <= 0xF4 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC2 ? 2 : 0;
  if (length == 0 || lead > 0xF4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  if (lead == 0xE0 && byte(1) < 0xA0) return 0;
  if (lead == 0xED && byte(1) > 0x9F) return 0;
  if (lead == 0xF0 && byte(1) < 0x90) return 0;
  if (lead == 0xF4 && byte(1) > 0x8F) return 0;
  return length;
}

}  // namespace

std::string printable(std::string_view text, size_t max_bytes) {
  std::string out;
  const bool cut = text.size() > max_bytes;
  while (!text.empty() && out.size() < max_bytes) {
    const size_t length = utf8_sequence_length(text);
    const auto lead = static_cast<unsigned char>(text[0]);
    const bool control = lead < 0x20 || lead == 0x7F ||
                         (length == 2 && lead == 0xC2 && static_cast<unsigned char>(text[1]) < 0xA0);
    if (length > 0 && !control) {
      out.append(text.substr(0, length));
      text.remove_prefix(length);
      continue;
    }
    char escaped[8];
    std::snprintf(escaped, sizeof escaped, "\\x%02x", lead);
    out += escaped;
    text.remove_prefix(1);
  }
  if (cut) out += "…";
  return out;
}

}  // namespace cheetah
