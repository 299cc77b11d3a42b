// SPDX-License-Identifier: MIT
// Any bytes are a message or an Error; what was decoded encodes to the same bytes again.
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "cluster/wire/codec.h"

namespace {

template <class Decode>
void refuses_or(Decode&& decode) {
  try {
    decode();
  } catch (const cheetah::Error&) {
    // A refusal is an answer.
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace cheetah::cluster;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  refuses_or([&] {
    if (encode(decode(bytes)) != bytes) __builtin_trap();
  });
  refuses_or([&] {
    if (encode_descriptor(decode_descriptor(bytes)) != bytes) __builtin_trap();
  });
  refuses_or([&] {
    if (encode_job(decode_job(bytes)) != bytes) __builtin_trap();
  });
  return 0;
}
