// SPDX-License-Identifier: MIT
// Any bytes are JSON within our limits or an Error; what was parsed can be read and written again.
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "base/json.h"

namespace {

void read_fields(const cheetah::Json& value) {
  const cheetah::JsonFields fields(value, "fuzz.json");
  for (const auto& [name, unused] : value.items()) {
    try {
      fields.integer_or(name, 0, -100, 100);
    } catch (const cheetah::Error&) {
      // another type or out of range
    }
    try {
      fields.number_or(name, 0);
      fields.string_or(name, "");
    } catch (const cheetah::Error&) {
      // another type
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const cheetah::Json value = cheetah::parse_json(text, "fuzz.json");
    const std::string written = cheetah::dump_json(value);
    if (cheetah::dump_json(cheetah::parse_json(written, "written.json")) != written) __builtin_trap();
    read_fields(value);
  } catch (const cheetah::Error& error) {
    // A refusal is an answer, and its sentence must be fit for a terminal.
    if (cheetah::printable(error.what(), 4096).find('\x1b') != std::string::npos) __builtin_trap();
  }
  return 0;
}
