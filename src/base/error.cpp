// SPDX-License-Identifier: MIT
#include "base/error.h"

#include <cstdio>
#include <cstdlib>

#include "base/utf8.h"

namespace cheetah {

void assertion_failed(const char* condition, const char* why, SourceLocation at) {
  std::fprintf(stderr, "cheetah: bug: %s (%s) at %s:%u in %s\n", why, condition, at.file_name(), at.line(),
      at.function_name());
  std::abort();
}

std::string printable(std::string_view text, size_t max_bytes) {
  std::string out;
  const bool cut = text.size() > max_bytes;
  while (!text.empty() && out.size() < max_bytes) {
    const Utf8Part part = utf8_part(text);
    const size_t length = part.kind == Utf8Start::kComplete ? static_cast<size_t>(part.length) : 0;
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
