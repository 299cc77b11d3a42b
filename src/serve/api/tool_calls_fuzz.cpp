// SPDX-License-Identifier: MIT
// The first byte picks the dialect, the second how the rest is cut: both ways of cutting must read the same.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "serve/api/output_parser.h"

namespace cheetah {
namespace {

std::string read(const OutputShape& shape, std::string_view text, size_t piece) {
  OutputParser parser(shape);
  std::vector<OutputDelta> deltas;
  for (size_t at = 0; at < text.size(); at += piece) parser.push(text.substr(at, piece), deltas);
  parser.finish(false, deltas);
  std::string content, calls;  // content may come before or after a call
  for (const OutputDelta& delta : deltas) {
    if (delta.kind == OutputDelta::Kind::kContent)
      content += delta.text;
    else
      calls += delta.kind == OutputDelta::Kind::kToolCall ? "\n" + delta.text : delta.text;
  }
  return content + "\n\n" + calls;
}

}  // namespace
}  // namespace cheetah

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace cheetah;
  if (size < 2) return 0;
  static const auto kTools = [] {
    auto set = std::make_shared<ToolSet>();
    set->tools = {{"a", "", false}};
    return set;
  }();
  OutputShape shape;
  shape.tools = kTools;
  shape.dialect = &all_dialects()[data[0] % all_dialects().size()];
  shape.harmony = data[0] == 255;
  if (data[1] & 1) {
    shape.reasoning_open = "<think>";
    shape.reasoning_close = "</think>";
  }
  const std::string_view text(reinterpret_cast<const char*>(data + 2), size - 2);
  CHEETAH_ASSERT(read(shape, text, text.size() + 1) == read(shape, text, 1u + (data[1] >> 1) % 16),
      "a cut changes nothing");
  return 0;
}
