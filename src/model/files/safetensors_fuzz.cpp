// SPDX-License-Identifier: MIT
// Any bytes are a safetensors file we can read or an Error; what was read can be used.
#include <cstdint>

#include "base/error.h"
#include "model/files/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const auto file =
        cheetah::SafetensorsFile::parse(std::as_bytes(std::span(data, size)), "fuzz.safetensors");
    volatile int sink = 0;
    for (const auto& [name, view] : file.tensors()) {
      if (view.bytes() == 0) continue;
      sink = sink + std::to_integer<int>(view.data[0]) + std::to_integer<int>(view.data[view.bytes() - 1]);
    }
  } catch (const cheetah::Error&) {
    // a refusal is an answer
  }
  return 0;
}
