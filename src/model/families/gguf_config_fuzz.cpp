// SPDX-License-Identifier: MIT
// Any bytes taken for a GGUF file give traits the forward pass can trust, or an Error.
#include <cstdint>

#include "base/error.h"
#include "model/families/gguf_config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    cheetah::read_gguf_family(cheetah::GgufFile::parse(std::as_bytes(std::span(data, size)), "fuzz.gguf"));
  } catch (const cheetah::Error&) {
    // a refusal is an answer
  }
  return 0;
}
