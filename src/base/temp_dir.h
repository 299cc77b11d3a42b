// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <string_view>

namespace cheetah {

// A new folder that only this user may enter; removed with its contents.
class TempDir {
 public:
  explicit TempDir(std::string_view prefix = "cheetah");  // under $TMPDIR or /tmp; throws Error
  ~TempDir();
  TempDir(TempDir&& other) noexcept;
  TempDir& operator=(TempDir&&) = delete;

  const std::string& path() const { return path_; }
  std::string path(std::string_view name) const;
  // Writes a file, makes the folders above it and returns its path.
  std::string write(std::string_view name, std::string_view content) const;
  // Leaves the folder in place and returns its path.
  std::string keep();

 private:
  std::string path_;  // empty: nothing to remove
};

}  // namespace cheetah
