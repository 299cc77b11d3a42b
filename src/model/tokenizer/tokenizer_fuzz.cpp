// SPDX-License-Identifier: MIT
// Any bytes are a tokenizer we can use or an Error. The input is a tokenizer.json, a zero byte and a text.
#include <algorithm>
#include <cstdint>
#include <string>

#include "base/error.h"
#include "model/tokenizer/tokenizer.h"
#include "model/tokenizer/unicode.h"

namespace {

constexpr size_t kMaxText = 512;

void use(const cheetah::Tokenizer& tokenizer, std::string_view text) {
  const std::vector<int32_t> ids = tokenizer.encode(text, {.add_special = true});
  tokenizer.encode(text, {.parse_special = false});
  const std::string whole = tokenizer.decode(ids, false);
  cheetah::StreamDecoder stream(tokenizer, false);
  std::string joined;
  for (const int32_t id : ids) joined += stream.push(id);
  joined += stream.finish();
  if (joined != whole || !cheetah::is_valid_utf8(whole)) __builtin_trap();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t cut = std::min(input.find('\0'), input.size());
  try {
    const auto tokenizer = cheetah::Tokenizer::from_json(input.substr(0, cut), "fuzz.json");
    use(*tokenizer, input.substr(std::min(cut + 1, input.size())).substr(0, kMaxText));
  } catch (const cheetah::Error&) {
    // a refusal is an answer
  }
  return 0;
}
