// SPDX-License-Identifier: MIT
// Any bytes are a template that renders, within limits, or an Error. After a line break and a byte 1 the
// rest is the JSON of the variables.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "model/template/chat_template.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t cut = input.rfind("\n\x01");
  const std::string_view variables =
      cut == std::string_view::npos
          ? R"({"messages":[{"role":"user","content":"hi"}],"tools":null,"s":"text","n":3,"d":{"k":[1,2.5,true,null]}})"
          : input.substr(cut + 2);
  cheetah::TemplateLimits limits;
  limits.max_steps = 20'000;
  limits.max_output_bytes = 1 << 18;
  try {
    const cheetah::ChatTemplate chat(input.substr(0, cut), "fuzz", limits);
    chat.render(variables, 1721997296);
  } catch (const cheetah::Error&) {
    // a refusal is an answer
  }
  return 0;
}
