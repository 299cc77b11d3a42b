// SPDX-License-Identifier: MIT
// The first line is the content type, the rest the body.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "serve/http/multipart.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t line = text.find('\n');
  if (line == std::string_view::npos) return 0;
  const auto parts = cheetah::parse_form(text.substr(0, line), text.substr(line + 1));
  if (!parts) return 0;
  for (const cheetah::FormPart& part : *parts)  // every content lies inside the body
    if (part.content.data() < text.data() || part.content.data() + part.content.size() > text.data() + size)
      std::abort();
  return 0;
}
