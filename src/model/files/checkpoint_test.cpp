#include "model/files/checkpoint.h"

#include <gtest/gtest.h>

namespace cheetah {
namespace {

const std::string kModels = std::string(CHEETAH_SOURCE_DIR) + "/tests/models/";

TEST(Checkpoint, OpensAHuggingFaceDirectory) {
  const Checkpoint checkpoint = Checkpoint::open(kModels + "llama");
  EXPECT_EQ(checkpoint.kind(), Checkpoint::Kind::kHuggingFace);
  EXPECT_EQ(checkpoint.config()["model_type"], "llama");
  EXPECT_TRUE(checkpoint.tensors().contains("model.embed_tokens.weight"));
  EXPECT_TRUE(checkpoint.text_file("tokenizer.json"));
  EXPECT_FALSE(checkpoint.text_file("vocab.txt"));
  EXPECT_GT(checkpoint.file_bytes(), 0);
  checkpoint.prefetch();
}

TEST(Checkpoint, OpensAGgufFile) {
  for (const char* type : {"F32", "F16", "Q8_0", "Q4_0", "Q4_K_S", "Q6_K"}) {
    const Checkpoint checkpoint = Checkpoint::open(kModels + "gguf/llama-" + type + ".gguf");
    ASSERT_NE(checkpoint.gguf(), nullptr);
    EXPECT_EQ(checkpoint.gguf()->string("general.architecture"), "llama");
    EXPECT_EQ(checkpoint.tensors().at("token_embd.weight").shape.rank(), 2);
  }
}

}  // namespace
}  // namespace cheetah
