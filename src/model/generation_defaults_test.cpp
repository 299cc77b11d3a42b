// SPDX-License-Identifier: MIT
#include "model/generation_defaults.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "model/files/model_test_files.h"

namespace cheetah {
namespace {

using test::TemporaryDirectory;

TEST(GenerationDefaults, ComeFromGenerationConfig) {
  const TemporaryDirectory model;
  EXPECT_EQ(read_generation_defaults(model.path()), GenerationDefaults{});
  model.write("generation_config.json",
      R"({"temperature":0.6,"top_p":0.9,"top_k":20,"repetition_penalty":1.05,"do_sample":true,"max_new_tokens":2048,"eos_token_id":[1,2]})");
  const GenerationDefaults defaults = read_generation_defaults(model.path());
  EXPECT_FLOAT_EQ(*defaults.temperature, 0.6f);
  EXPECT_FLOAT_EQ(*defaults.top_p, 0.9f);
  EXPECT_EQ(*defaults.top_k, 20);
  EXPECT_EQ(*defaults.max_new_tokens, 2048);
  EXPECT_FLOAT_EQ(*defaults.repetition_penalty, 1.05f);
  EXPECT_FALSE(defaults.min_p);
}

TEST(GenerationDefaults, ComeFromAGgufFile) {
  const TemporaryDirectory model;
  const std::string path = model.write("m.gguf", test::GgufBuilder()
                                                     .f32("general.sampling.temp", 0.25f)
                                                     .u32("general.sampling.top_k", 7)
                                                     .string("general.architecture", "llama")
                                                     .build());
  const GenerationDefaults defaults = read_generation_defaults(path);
  EXPECT_FLOAT_EQ(*defaults.temperature, 0.25f);
  EXPECT_EQ(*defaults.top_k, 7);
  EXPECT_FALSE(defaults.top_p);
}

TEST(GenerationDefaults, NameTheFieldThatIsWrong) {
  const TemporaryDirectory model;
  for (const char* field : {"temperature", "top_p", "top_k", "repetition_penalty"}) {
    model.write("generation_config.json", std::string("{\"") + field + "\":-7}");
    try {
      read_generation_defaults(model.path());
      ADD_FAILURE() << field;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(field), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace cheetah
