// SPDX-License-Identifier: MIT
#include "base/temp_dir.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "base/error.h"
#include "base/format.h"

namespace cheetah {

TempDir::TempDir(std::string_view prefix) {
  std::error_code no_folder;
  std::filesystem::path parent = std::filesystem::temp_directory_path(no_folder);
  if (no_folder) parent = "/tmp";
  path_ = (parent / (std::string(prefix) + "-XXXXXX")).string();
  if (::mkdtemp(path_.data()) == nullptr)
    throw Error(format("{}: cannot make a temporary folder: {}; TMPDIR names another place", parent.string(),
        std::strerror(errno)));
}

TempDir::TempDir(TempDir&& other) noexcept : path_(std::exchange(other.path_, {})) {}

TempDir::~TempDir() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

std::string TempDir::path(std::string_view name) const {
  return (std::filesystem::path(path_) / name).string();
}

std::string TempDir::write(std::string_view name, std::string_view content) const {
  const std::filesystem::path file = path(name);
  std::filesystem::create_directories(file.parent_path());
  if (!(std::ofstream(file, std::ios::binary) << content).flush())
    throw Error(format("{}: cannot be written", file.string()));
  return file.string();
}

std::string TempDir::keep() { return std::exchange(path_, {}); }

}  // namespace cheetah
