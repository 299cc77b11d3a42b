// SPDX-License-Identifier: MIT
// Random blocks of every GGUF format, widened by ggml itself (tests/data/ggml_blocks.json): the two must
// agree to the bit.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/json.h"
#include "kernels/quant/quant.h"

namespace cheetah {
namespace {

std::vector<std::byte> from_hex(const std::string& text) {
  std::vector<std::byte> bytes;
  for (size_t i = 0; i + 1 < text.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(std::stoi(text.substr(i, 2), nullptr, 16)));
  return bytes;
}

TEST(GgmlBlocks, WidenToTheSameBitsAsGgml) {
  const Json file = read_json_file(CHEETAH_SOURCE_DIR "/tests/data/ggml_blocks.json");
  ASSERT_GE(file.size(), 9u);
  for (const auto& [name, entry] : file.items()) {
    const DType dtype = dtype_from_name(name).value();
    const std::vector<std::byte> blocks = from_hex(entry["bytes"]), expected = from_hex(entry["values"]);
    std::vector<float> values(expected.size() / sizeof(float));
    dequantize_row(dtype, blocks.data(), values.data(), static_cast<int64_t>(values.size()));
    for (size_t i = 0; i < values.size(); ++i) {
      float want;
      std::memcpy(&want, expected.data() + i * sizeof(float), sizeof want);
      ASSERT_EQ(values[i], want) << name << " element " << i;
    }
  }
}

}  // namespace
}  // namespace cheetah
