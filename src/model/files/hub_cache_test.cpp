// SPDX-License-Identifier: MIT
#include "model/files/hub_cache.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "model/files/model_test_files.h"

namespace cheetah {
namespace {

using test::TemporaryDirectory;

TEST(HubReference, HasARepositoryAndPerhapsAFileAQuantizationOrARevision) {
  const auto plain = parse_hub_reference("acme/cub");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->repository, "acme/cub");
  EXPECT_EQ(plain->revision, "main");
  const auto all = parse_hub_reference("hf.co/acme/cub:Q8_0@refs/pr/1");
  ASSERT_TRUE(all);
  EXPECT_EQ(all->repository, "acme/cub");
  EXPECT_EQ(all->quant, "Q8_0");
  EXPECT_EQ(all->revision, "refs/pr/1");
  EXPECT_EQ(parse_hub_reference("acme/cub/sub/cub.gguf")->file, "sub/cub.gguf");
  EXPECT_EQ(parse_hub_reference("gpt2")->repository, "gpt2");
  for (const char* wrong : {"", "/", "acme/", "/cub", "acme/../cub", "../cub", "acme/cub@", "acme/cub:",
           "acme/cub:..", "acme/cub@../x", "acme//cub", "./cub", "acme/cub/../x", "acme/cub/x.gguf:Q8_0"})
    EXPECT_FALSE(parse_hub_reference(wrong)) << wrong;
}

class HubCache : public testing::Test {
 protected:
  HubCache() {
    hub_.write("models--acme--cub/refs/main", "abc123");
    hub_.write("models--acme--cub/refs/v1", "def456\n");
    for (const char* file :
        {"abc123/cub-Q8_0.gguf", "abc123/cub-Q4_K_M.gguf", "abc123/mmproj-Q8_0.gguf",
            "abc123/F16/cub-00001-of-00002.gguf", "abc123/F16/cub-00002-of-00002.gguf", "def456/config.json"})
      hub_.write(std::string("models--acme--cub/snapshots/") + file, "x");
  }
  std::string find(const std::string& text) const {
    const std::string path = resolve_model_reference(text, hub_.path());
    return path.substr(hub_.path().size() + std::string("/models--acme--cub/snapshots/").size());
  }
  TemporaryDirectory hub_;
};

TEST_F(HubCache, FindsTheRevisionTheFileAndTheQuantization) {
  EXPECT_EQ(find("acme/cub"), "abc123");
  EXPECT_EQ(find("acme/cub@v1"), "def456");
  EXPECT_EQ(find("acme/cub@def456"), "def456");
  EXPECT_EQ(find("acme/cub:q8_0"), "abc123/cub-Q8_0.gguf");
  EXPECT_EQ(find("acme/cub:Q4_K_M@main"), "abc123/cub-Q4_K_M.gguf");
  EXPECT_EQ(find("acme/cub:F16"), "abc123/F16/cub-00001-of-00002.gguf");
  EXPECT_EQ(find("acme/cub/cub-Q8_0.gguf"), "abc123/cub-Q8_0.gguf");
  EXPECT_EQ(find("acme/cub/F16/cub-00001-of-00002.gguf"), "abc123/F16/cub-00001-of-00002.gguf");
  for (const char* absent :
      {"acme/cub@v2", "acme/cub:0", "acme/cub:Q5_0", "acme/cub/other.gguf", "acme/cub/no/x.gguf"})
    EXPECT_THROW(find(absent), Error) << absent;
}

TEST_F(HubCache, NamesAModelByItsRepositoryNotByItsCommit) {
  EXPECT_EQ(hub_name_of(hub_.path("models--acme--cub/snapshots/abc123")), "acme/cub");
  EXPECT_EQ(hub_name_of(hub_.path("models--acme--cub/snapshots/abc123/")), "acme/cub");
  EXPECT_EQ(hub_name_of(hub_.path("models--acme--cub/snapshots/abc123/F16/x.gguf")), "acme/cub");
  EXPECT_EQ(hub_name_of(hub_.path("models--gpt2/snapshots/1")), "gpt2");
  EXPECT_EQ(hub_name_of(hub_.path("models--acme--cub/other/abc123")), "");
  EXPECT_EQ(hub_name_of("models/cub-7m"), "");
}

}  // namespace
}  // namespace cheetah
