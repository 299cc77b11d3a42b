// SPDX-License-Identifier: MIT
// Any bytes are a message or an Error; what was decoded encodes to the same bytes again in the version it came in,
// but for what a newer one has behind it.
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
  const auto version = static_cast<uint16_t>(size < 6 ? 0 : data[4] | data[5] << 8);
  const auto same = [&](const std::string& again) { return version > kWire.newest || again == bytes; };
  refuses_or([&] {
    if (!same(encode(decode(bytes), version))) __builtin_trap();
  });
  refuses_or([&] {
    if (!same(encode_descriptor(decode_descriptor(bytes), version))) __builtin_trap();
  });
  refuses_or([&] {
    if (!same(encode_job(decode_job(bytes), version))) __builtin_trap();
  });
  return 0;
}
