// SPDX-License-Identifier: MIT
// Any bytes are a GGUF file we can read or an Error; what was read can be used.
#include <cstdint>

#include "base/error.h"
#include "model/files/gguf.h"

namespace {

void use(const cheetah::GgufFile& file) {
  volatile uint64_t sink = 0;  // sums of any integers wrap around
  for (const auto& [key, value] : file.metadata()) {
    try {
      if (value.is_array && value.type == cheetah::GgufType::kString)
        for (const std::string_view text : file.strings(key))
          sink = sink + (text.empty() ? 0 : static_cast<uint8_t>(text.back()));
      else if (value.is_array)
        sink = sink + file.numbers(key).size() + file.integers(key).size();
      else if (value.type == cheetah::GgufType::kString)
        sink = sink + file.string(key)->size();
      else
        sink = sink + static_cast<uint64_t>(file.integer(key).value());
    } catch (const cheetah::Error&) {
      // the value has another type
    }
  }
  for (const auto& [name, view] : file.tensors())
    sink =
        sink + std::to_integer<uint8_t>(view.data[0]) + std::to_integer<uint8_t>(view.data[view.bytes() - 1]);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    use(cheetah::GgufFile::parse(std::as_bytes(std::span(data, size)), "fuzz.gguf"));
  } catch (const cheetah::Error&) {
    // a refusal is an answer
  }
  return 0;
}
