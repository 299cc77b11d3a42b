// SPDX-License-Identifier: MIT
#include "base/mapped_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "base/error.h"

namespace cheetah {
namespace {

class MappedFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ = std::filesystem::temp_directory_path() / ("cheetah_mapped_" + std::to_string(getpid()));
    std::filesystem::create_directories(directory_);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  std::string path(const char* name) const { return (directory_ / name).string(); }
  std::filesystem::path directory_;
};

TEST_F(MappedFileTest, ShowsTheBytesOfTheFile) {
  std::ofstream(path("a")) << "hello";
  const MappedFile file = MappedFile::open(path("a"));
  EXPECT_EQ(file.text(), "hello");
  file.prefetch(1, 3);
}

TEST_F(MappedFileTest, AnEmptyFileIsAnEmptyView) {
  std::ofstream(path("empty")).flush();
  EXPECT_EQ(MappedFile::open(path("empty")).size(), 0);
}

TEST_F(MappedFileTest, RefusesWhatIsNotARegularFile) {
  ASSERT_EQ(mkfifo(path("fifo").c_str(), 0600), 0);
  EXPECT_THROW(MappedFile::open(path("fifo")), Error);
  EXPECT_THROW(MappedFile::open(directory_.string()), Error);
  EXPECT_THROW(MappedFile::open(path("absent")), Error);
  EXPECT_THROW(MappedFile::open("/dev/zero"), Error);
}

}  // namespace
}  // namespace cheetah
