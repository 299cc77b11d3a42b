// SPDX-License-Identifier: MIT
#include "base/atomic_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/error.h"
#include "base/temp_dir.h"

namespace cheetah {
namespace {

namespace fs = std::filesystem;

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

int64_t num_files(const std::string& folder) {
  return std::distance(fs::directory_iterator(folder), fs::directory_iterator());
}

TEST(AtomicFile, TheOldContentStaysUntilTheNewOneIsWhole) {
  const TempDir folder;
  const std::string path = folder.write("r.json", "old");
  const AtomicFile file(path);
  EXPECT_EQ(content_of(path), "old");
  EXPECT_EQ(num_files(folder.path()), 1);
  file.write("new");
  EXPECT_EQ(content_of(path), "new");
  EXPECT_EQ(num_files(folder.path()), 1);
}

TEST(AtomicFile, KeepsRightsAndLinks) {
  const TempDir folder;
  const std::string path = folder.write("real", "old");
  fs::permissions(path, fs::perms(0640));
  fs::create_symlink("real", folder.path("link"));
  AtomicFile(folder.path("link")).write("new");
  EXPECT_TRUE(fs::is_symlink(folder.path("link")));
  EXPECT_EQ(content_of(path), "new");
  EXPECT_EQ(fs::status(path).permissions(), fs::perms(0640));
}

TEST(AtomicFile, APathThatCannotBeWrittenIsRefusedAtOnce) {
  const TempDir folder;
  EXPECT_THROW(AtomicFile(folder.path("missing/r.json")), Error);
  EXPECT_THROW(AtomicFile(folder.path()), Error);
}

TEST(AtomicFile, WhatIsNotARegularFileIsWrittenTo) {
  AtomicFile("/dev/null").write("x");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  EXPECT_THROW(AtomicFile("/dev/full").write("x"), Error);
  AtomicFile("").write("x");
}

}  // namespace
}  // namespace cheetah
