// SPDX-License-Identifier: MIT
#include "cli/model_lookup.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"

namespace cheetah {
namespace {

namespace fs = std::filesystem;

class ModelLookup : public testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(root_);
    fs::create_directories(root_ / "a");
    fs::create_directories(root_ / "b" / "small");
    fs::create_directories(root_ / "hub/models--org--name/snapshots/abc");
    fs::create_directories(root_ / "hub/models--org--name/refs");
    std::ofstream(root_ / "hub/models--org--name/refs/main") << "abc\n";
    std::ofstream(root_ / "a" / "tiny.gguf") << "x";
    places_ = {
        .folders = {(root_ / "a").string(), (root_ / "b").string()}, .hub_cache = (root_ / "hub").string()};
  }
  void TearDown() override { fs::remove_all(root_); }
  fs::path root_ = fs::path(testing::TempDir()) / "cheetah_model_lookup_test";
  ModelPlaces places_;
};

TEST_F(ModelLookup, FindsBareNamesInTheFoldersInOrder) {
  EXPECT_EQ(find_model("small", places_), (root_ / "b/small").string());
  EXPECT_EQ(find_model("tiny", places_), (root_ / "a/tiny.gguf").string());
  EXPECT_EQ(find_model("tiny.gguf", places_), (root_ / "a/tiny.gguf").string());
}

TEST_F(ModelLookup, FindsHubNamesThroughTheirMainRevision) {
  EXPECT_EQ(find_model("org/name", places_), (root_ / "hub/models--org--name/snapshots/abc").string());
  EXPECT_THROW(find_model("org/other", places_), Error);
  EXPECT_THROW(find_model("org/../name", places_), Error);
}

TEST_F(ModelLookup, TakesExistingPathsAndRandomPresetsAsTheyAre) {
  EXPECT_EQ(find_model((root_ / "b").string(), places_), (root_ / "b").string());
  EXPECT_EQ(find_model("random:llama-1b", places_), "random:llama-1b");
}

TEST_F(ModelLookup, SaysWhereItLooked) {
  try {
    find_model("absent", places_);
    FAIL() << "found a model that is not there";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find((root_ / "b").string()), std::string::npos) << error.what();
  }
}

TEST_F(ModelLookup, NamesTheModelThatWasMeant) {
  fs::create_directories(root_ / "a" / "cub-7m");
  std::ofstream(root_ / "a" / "cub-7m" / "config.json") << "{}";
  for (const char* typed : {"cub7m", "cub-7b", "tny"}) try {
      find_model(typed, places_);
      FAIL() << typed;
    } catch (const Error& error) {
      const std::string meant = typed[0] == 'c' ? "did you mean cub-7m?" : "did you mean tiny?";
      EXPECT_NE(std::string(error.what()).find(meant), std::string::npos) << error.what();
    }
}

TEST(DefaultModel, IsInTheSourceTree) { EXPECT_TRUE(fs::exists(fs::path(find_model("")) / "config.json")); }

}  // namespace
}  // namespace cheetah
