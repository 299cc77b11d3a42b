// SPDX-License-Identifier: MIT
#include "model/packed/quantization_config.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace cheetah {
namespace {

QuantizationConfig read(const char* text) {
  return read_quantization_config({{"quantization_config", Json::parse(text)}}, "config.json");
}

TEST(QuantizationConfig, KnowsTheMethodsPeopleHave) {
  EXPECT_EQ(read_quantization_config(Json::object(), "c").kind, PackedKind::kNone);
  EXPECT_EQ(read(R"({"quant_method": "fp8"})").kind, PackedKind::kNone);
  EXPECT_EQ(read(R"({"quant_method": "gptq", "bits": 3})").kind, PackedKind::kGptq);
  EXPECT_TRUE(read(R"({"quant_method": "gptq", "bits": 4})").zeros_minus_one);
  EXPECT_FALSE(
      read(R"({"quant_method": "gptq", "bits": 4, "checkpoint_format": "gptq_v2"})").zeros_minus_one);
  EXPECT_EQ(read(R"({"quant_method": "awq", "bits": 4, "version": "gemm"})").kind, PackedKind::kAwq);
  EXPECT_EQ(
      read(R"({"quant_method": "bitsandbytes", "load_in_4bit": true})").kind, PackedKind::kBitsAndBytes);
  EXPECT_EQ(read(R"({"quant_method": "compressed-tensors", "format": "pack-quantized",
                     "config_groups": {"group_0": {"weights": {"num_bits": 4}}}})")
                .bits,
      std::vector<int>{4});
}

TEST(QuantizationConfig, RefusesWhatItWouldReadAsGarbage) {
  for (const char* text : {R"({"quant_method": "exl2"})", R"({})", R"({"quant_method": "gptq", "bits": 5})",
           R"({"quant_method": "gptq", "bits": 4, "checkpoint_format": "marlin"})",
           R"({"quant_method": "awq", "bits": 4, "version": "gemv"})",
           R"({"quant_method": "compressed-tensors", "format": "marlin-24", "config_groups": {}})",
           R"({"quant_method": "compressed-tensors", "format": "pack-quantized"})",
           R"({"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {"a": 1}})",
           R"({"quant_method": "compressed-tensors", "format": "int-quantized", "config_groups": {},
               "sparsity_config": {"format": "sparse-24-bitmask"}})",
           "[]"})
    EXPECT_THROW(read(text), Error) << text;
}

}  // namespace
}  // namespace cheetah
