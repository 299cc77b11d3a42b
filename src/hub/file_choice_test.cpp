// SPDX-License-Identifier: MIT
#include "hub/file_choice.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/format.h"

namespace cheetah::hub {
namespace {

Repository repository_of(const std::vector<std::string>& paths) {
  Repository repository{.name = "org/name", .commit = std::string(40, 'a'), .files = {}};
  for (const std::string& path : paths) repository.files.push_back({path, 1, std::string(40, 'b')});
  return repository;
}

std::string chosen(const std::vector<std::string>& paths, HubReference reference) {
  reference.repository = "org/name";
  std::string names;
  try {
    for (const RepositoryFile& file : choose_files(repository_of(paths), reference))
      names += (names.empty() ? "" : " ") + file.path;
  } catch (const Error& error) {
    return std::string("error: ") + error.what();
  }
  return names;
}

TEST(FileChoice, TakesTheSafetensorsModelAndWhatStandsBesideIt) {
  EXPECT_EQ(chosen({".gitattributes", "README.md", "config.json", "model-00001-of-00002.safetensors",
                       "model-00002-of-00002.safetensors", "model.safetensors.index.json",
                       "consolidated.safetensors", "original/params.json", "tokenizer.json",
                       "pytorch_model.bin", "chat_template.jinja"},
                {}),
      "config.json model-00001-of-00002.safetensors model-00002-of-00002.safetensors model.safetensors.index.json "
      "tokenizer.json chat_template.jinja");
}

TEST(FileChoice, TakesTheQuantizationWithAllItsParts) {
  const std::vector<std::string> paths = {"mmproj-F16.gguf", "x-Q4_K_M.gguf", "x-Q4_K_S.gguf",
      "x-Q8_0-00001-of-00002.gguf", "x-Q8_0-00002-of-00002.gguf", "x-BF16.gguf"};
  EXPECT_EQ(chosen(paths, {.repository = "", .quant = "q8_0"}),
      "x-Q8_0-00001-of-00002.gguf x-Q8_0-00002-of-00002.gguf");
  EXPECT_EQ(chosen(paths, {.repository = "", .quant = "BF16"}), "x-BF16.gguf");
  EXPECT_EQ(chosen(paths, {.repository = "", .file = "x-Q8_0-00001-of-00002.gguf"}),
      "x-Q8_0-00001-of-00002.gguf x-Q8_0-00002-of-00002.gguf");
  EXPECT_EQ(chosen(paths, {}), "x-Q4_K_M.gguf");
  const std::string missing = chosen(paths, {.repository = "", .quant = "Q5_0"});
  for (const char* text : {"error: org/name:Q5_0", "BF16", "Q4_K_M", "Q8_0"})
    EXPECT_NE(missing.find(text), std::string::npos) << missing;
}

TEST(FileChoice, SaysWhatToNameWhenThereAreSeveral) {
  EXPECT_NE(chosen({"a-Q2_K.gguf", "a-Q3_K.gguf"}, {}).find("org/name:QUANTIZATION; it has Q2_K, Q3_K"),
      std::string::npos);
  EXPECT_NE(chosen({"a-Q8_0.gguf", "b-Q8_0.gguf"}, {.repository = "", .quant = "Q8_0"}).find("2 models"),
      std::string::npos);
  EXPECT_EQ(chosen({"only.gguf"}, {}), "only.gguf");
}

TEST(FileChoice, RefusesPicklesAndNothing) {
  EXPECT_NE(chosen({"config.json", "pytorch_model.bin"}, {}).find("pickle"), std::string::npos);
  EXPECT_NE(chosen({"README.md"}, {}).find("no safetensors or GGUF"), std::string::npos);
  EXPECT_NE(
      chosen({"a.gguf"}, {.repository = "", .file = "b.gguf"}).find("no file b.gguf"), std::string::npos);
}

TEST(FileChoice, ReadsQuantizationsFromNames) {
  EXPECT_EQ(quantization_of("mistral-7b-v0.2.Q4_K_M.gguf"), "Q4_K_M");
  EXPECT_EQ(quantization_of("x-UD-IQ2_XXS-00001-of-00003.gguf"), "IQ2_XXS");
  EXPECT_EQ(quantization_of("x-q8_0.gguf"), "Q8_0");
  EXPECT_EQ(quantization_of("Qwen3-8B.gguf"), "");
}

}  // namespace
}  // namespace cheetah::hub
