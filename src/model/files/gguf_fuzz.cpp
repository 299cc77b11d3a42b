// Any bytes are a GGUF file we can read or an Error; what was read can be used.
#include <cstdint>

#include "base/error.h"
#include "model/files/gguf.h"

namespace {

void use(const cheetah::GgufFile& file) {
  volatile int64_t sink = 0;
  for (const auto& [key, value] : file.metadata()) {
    try {
      if (value.is_array && value.type == cheetah::GgufType::kString)
        for (const std::string_view text : file.strings(key)) sink = sink + (text.empty() ? 0 : text.back());
      else if (value.is_array)
        sink = sink + static_cast<int64_t>(file.numbers(key).size() + file.integers(key).size());
      else if (value.type == cheetah::GgufType::kString)
        sink = sink + static_cast<int64_t>(file.string(key)->size());
      else
        sink = sink + file.integer(key).value();
    } catch (const cheetah::Error&) {
      // the value has another type
    }
  }
  for (const auto& [name, view] : file.tensors())
    sink = sink + std::to_integer<int>(view.data[0]) + std::to_integer<int>(view.data[view.bytes() - 1]);
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
