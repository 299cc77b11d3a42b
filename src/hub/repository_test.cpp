// SPDX-License-Identifier: MIT
#include "hub/repository.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/format.h"

namespace cheetah::hub {
namespace {

const std::string kCommit(40, 'a'), kBlob(40, 'b'), kSum(64, 'c');

std::string answer(const std::string& siblings) {
  return format(R"({{"sha":"{}","siblings":[{}]}})", kCommit, siblings);
}

TEST(Repository, ReadsSmallAndLargeFiles) {
  const Repository r =
      read_repository("org/name", answer(format(R"({{"rfilename":"config.json","size":3,"blobId":"{}"}},
                       {{"rfilename":"sub/m.gguf","size":9,"blobId":"{}","lfs":{{"sha256":"{}","size":9,"pointerSize":1}}}})",
                                      kBlob, kBlob, kSum)));
  EXPECT_EQ(r.commit, kCommit);
  ASSERT_EQ(r.files.size(), 2u);
  EXPECT_EQ(r.files[0].etag, kBlob);
  EXPECT_EQ(r.files[1].etag, kSum);
  EXPECT_EQ(file_address(r, r.files[1]), "/org/name/resolve/" + kCommit + "/sub/m.gguf");
}

TEST(Repository, LeavesOutWhatWouldLeadElsewhere) {
  for (const char* path : {"../x", "/etc/passwd", "a/../../x", "", "a//b", ".", "a\\\\b"}) {
    const std::string bad = format(R"({{"rfilename":"{}","size":3,"blobId":"{}"}})", path, kBlob);
    const std::string good = format(R"({{"rfilename":"ok","size":3,"blobId":"{}"}})", kBlob);
    EXPECT_EQ(read_repository("o/n", answer(bad + "," + good)).files.size(), 1u) << path;
  }
}

TEST(Repository, RefusesAnswersThatAreNone) {
  for (const std::string& text : {std::string("{}"), std::string("[]"), std::string("<html>"),
           std::string(R"({"sha":"../x","siblings":[]})"), format(R"({{"sha":"{}"}})", kCommit),
           answer(R"({"rfilename":"x","size":3,"blobId":"../../y"})"),
           answer(R"({"rfilename":"x","size":-1,"blobId":"bb"})"), answer("3")})
    EXPECT_THROW(read_repository("o/n", text), Error) << text;
}

TEST(Repository, EscapesNamesInAddresses) {
  Repository r{.name = "o/n", .commit = kCommit, .files = {}};
  EXPECT_EQ(file_address(r, {"a b%?#.json", 1, kBlob}), "/o/n/resolve/" + kCommit + "/a%20b%25%3F%23.json");
}

}  // namespace
}  // namespace cheetah::hub
