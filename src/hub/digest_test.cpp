// SPDX-License-Identifier: MIT
#include "hub/digest.h"

#include <gtest/gtest.h>

namespace cheetah::hub {
namespace {

// printf 'hello\n' | sha256sum, | git hash-object --stdin
constexpr const char* kSha256 = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03";
constexpr const char* kGitBlob = "ce013625030ba8dba906f756967f9e9ca394464a";

TEST(Digest, IsThatOfShaAndOfGit) {
  for (const char* etag : {kSha256, kGitBlob}) {
    Digest digest(etag, 6);
    digest.add("hel");
    digest.add("lo\n");
    EXPECT_EQ(digest.finish(), etag);
    digest.restart();
    digest.add("hello\n");
    EXPECT_EQ(digest.finish(), etag);
  }
}

TEST(Digest, NamesAreHexadecimalOfTheirLength) {
  EXPECT_TRUE(is_etag(kSha256));
  EXPECT_TRUE(is_etag(kGitBlob));
  for (const char* bad :
      {"", "abc", "../../../../../../../../../../../../etc/x", "CE013625030BA8DBA906F756967F9E9CA394464A"})
    EXPECT_FALSE(is_etag(bad)) << bad;
}

}  // namespace
}  // namespace cheetah::hub
