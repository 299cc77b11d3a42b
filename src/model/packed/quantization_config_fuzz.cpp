// SPDX-License-Identifier: MIT
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "model/packed/quantization_config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace cheetah;
  try {
    const Json config = parse_json({reinterpret_cast<const char*>(data), size}, "fuzz");
    if (config.is_object()) read_quantization_config(config, "fuzz");
  } catch (const Error&) {
  }
  return 0;
}
