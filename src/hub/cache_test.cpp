// SPDX-License-Identifier: MIT
#include "hub/cache.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "base/temp_dir.h"

namespace cheetah::hub {
namespace {

namespace fs = std::filesystem;

const std::string kFirst(40, '1'), kSecond(40, '2'), kA(40, 'a'), kB(64, 'b'), kC(64, 'c');

class CacheTest : public testing::Test {
 protected:
  void put(const std::string& etag, const std::string& content) {
    folder_.write("models--org--name/blobs/" + etag, content);
  }
  void publish(
      const std::string& commit, const std::vector<RepositoryFile>& files, const std::string& revision) {
    cache_.prepare("org/name");
    cache_.publish({.name = "org/name", .commit = commit, .files = {}}, files, revision);
  }
  bool is_there(const std::string& path) { return fs::exists(folder_.path("models--org--name/" + path)); }
  HubReference reference(const std::string& text) { return parse_hub_reference(text).value(); }

  TempDir folder_;
  Cache cache_{folder_.path()};
};

TEST_F(CacheTest, ShowsWhatWasPublishedAsTheLookupFindsIt) {
  put(kA, "{}");
  put(kB, "weights");
  publish(kFirst, {{"config.json", 2, kA}, {"sub/m-Q8_0.gguf", 7, kB}}, "main");
  EXPECT_TRUE(fs::is_symlink(folder_.path("models--org--name/snapshots/" + kFirst + "/sub/m-Q8_0.gguf")));
  EXPECT_EQ(fs::file_size(folder_.path("models--org--name/snapshots/" + kFirst + "/sub/m-Q8_0.gguf")), 7u);
  EXPECT_EQ(find_in_hub_cache(reference("org/name"), cache_.folder()),
      folder_.path("models--org--name/snapshots/" + kFirst));
  const auto models = cache_.models();
  ASSERT_EQ(models.size(), 1u);
  EXPECT_EQ(models[0].name, "org/name");
  EXPECT_EQ(models[0].refs, std::vector<std::string>{"main"});
  EXPECT_EQ(models[0].bytes, 9);
  EXPECT_EQ(models[0].files.size(), 2u);
}

TEST_F(CacheTest, AFurtherQuantizationJoinsItsSnapshotAndLeavesAlone) {
  put(kB, "one");
  put(kC, "three");
  publish(kFirst, {{"m-Q4_0.gguf", 3, kB}}, "main");
  publish(kFirst, {{"m-Q8_0.gguf", 5, kC}}, "main");
  EXPECT_EQ(cache_.models()[0].files.size(), 2u);
  EXPECT_EQ(cache_.remove(reference("org/name:Q8_0"), false), 5);
  EXPECT_FALSE(is_there("blobs/" + kC));
  EXPECT_TRUE(is_there("blobs/" + kB));
  EXPECT_THROW(cache_.remove(reference("org/name:Q8_0"), false), Error);
  EXPECT_EQ(cache_.remove(reference("org/name:Q4_0"), false), 3);
  EXPECT_FALSE(is_there(""));
}

TEST_F(CacheTest, ARevisionGoesAndWhatAnotherShowsStays) {
  put(kA, "{}");
  put(kB, "old");
  put(kC, "new");
  publish(kFirst, {{"config.json", 2, kA}, {"model.safetensors", 3, kB}}, "v1");
  publish(kSecond, {{"config.json", 2, kA}, {"model.safetensors", 3, kC}}, "main");
  EXPECT_EQ(cache_.models().size(), 2u);
  EXPECT_EQ(cache_.remove(reference("org/name@v1"), true), 3);
  EXPECT_TRUE(is_there("blobs/" + kA));
  EXPECT_FALSE(is_there("refs/v1"));
  EXPECT_EQ(cache_.remove(reference("org/name"), false), 2 + 3 + 40);
  EXPECT_TRUE(cache_.models().empty());
  EXPECT_THROW(cache_.remove(reference("org/name"), false), Error);
}

TEST_F(CacheTest, AnUnfinishedDownloadIsNoModel) {
  put(kB + ".incomplete", "half");
  EXPECT_TRUE(cache_.models().empty());
  ASSERT_EQ(cache_.unfinished().size(), 1u);
  EXPECT_EQ(cache_.unfinished()[0].bytes, 4);
  EXPECT_EQ(cache_.remove(reference("org/name"), false), 4);
}

}  // namespace
}  // namespace cheetah::hub
