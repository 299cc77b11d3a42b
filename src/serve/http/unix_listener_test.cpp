// SPDX-License-Identifier: MIT
#include "serve/http/unix_listener.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <optional>

#include "base/error.h"
#include "base/temp_dir.h"

namespace cheetah {
namespace {

mode_t mode_of(const std::string& path) {
  struct stat status {};
  return lstat(path.c_str(), &status) == 0 ? status.st_mode : 0;
}

std::string why(const std::string& path) {
  try {
    const UnixListener listener(path, 0600);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(UnixListener, MakesASocketWithItsRightsAndRemovesIt) {
  const TempDir dir;
  const std::string path = dir.path() + "/s";
  for (const mode_t mode : {0600, 0660, 0666}) {
    {
      const UnixListener listener(path, mode);
      EXPECT_EQ(mode_of(path), S_IFSOCK | mode);
    }
    EXPECT_EQ(mode_of(path), 0u);
  }
}

TEST(UnixListener, TakesThePlaceOfADeadServersSocketOnly) {
  const TempDir dir;
  const std::string path = dir.path() + "/s";
  std::optional<UnixListener> first(std::in_place, path, 0600);
  EXPECT_NE(why(path).find("another server listens there"), std::string::npos);
  UniqueFd listening(first->take_descriptor());
  listening.reset();  // as after a kill: the file stays, nothing listens
  EXPECT_EQ(why(path), "");
  std::ofstream(dir.path() + "/file") << "kept";
  EXPECT_NE(why(dir.path() + "/file").find("is not a socket"), std::string::npos);
  EXPECT_EQ(mode_of(dir.path() + "/file") & S_IFMT, static_cast<mode_t>(S_IFREG));
}

TEST(UnixListener, LeavesASocketThatAnotherMade) {
  const TempDir dir;
  const std::string path = dir.path() + "/s";
  std::optional<UnixListener> first(std::in_place, path, 0600);
  unlink(path.c_str());
  const UnixListener second(path, 0600);
  first.reset();
  EXPECT_NE(mode_of(path), 0u);
}

TEST(UnixListener, APathThatIsTooLongIsRefused) {
  EXPECT_NE(why("/tmp/" + std::string(200, 'x')).find("1 to 107 bytes"), std::string::npos);
}

}  // namespace
}  // namespace cheetah
