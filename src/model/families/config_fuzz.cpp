// SPDX-License-Identifier: MIT
// Any bytes taken for a config.json give traits the forward pass can trust, or an Error.
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "model/families/family.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    cheetah::read_family(cheetah::parse_json(text, "config.json"), "config.json");
  } catch (const cheetah::Error&) {
    // a refusal is an answer
  }
  return 0;
}
