// SPDX-License-Identifier: MIT
#include "base/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/unique_fd.h"

namespace cheetah {
namespace {

[[noreturn]] void fail(const std::string& path, int code) {
  throw Error(format("{}: cannot be written: {}", printable(path, 256), std::strerror(code)));
}

// A new file beside the target; its name and its descriptor.
std::pair<std::string, UniqueFd> make_beside(const std::string& path, const std::string& target) {
  const std::filesystem::path beside(target);
  std::string name = (beside.parent_path() / ("." + beside.filename().string() + ".XXXXXX")).string();
  UniqueFd file(mkostemp(name.data(), O_CLOEXEC));
  if (file.get() < 0) fail(path, errno);
  return {name, std::move(file)};
}

// The rights of the file that is replaced, or those a new file gets.
mode_t rights_of(const std::string& target) {
  struct stat info = {};
  if (stat(target.c_str(), &info) == 0) return info.st_mode & 07777;
  const mode_t mask = umask(0);
  umask(mask);
  return 0666 & ~mask;
}

int write_all(int file, std::string_view content) {
  while (!content.empty()) {
    const ssize_t wrote = ::write(file, content.data(), content.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return errno;
    content.remove_prefix(static_cast<size_t>(wrote));
  }
  return 0;
}

}  // namespace

AtomicFile::AtomicFile(const std::string& path) : path_(path), target_(path) {
  if (path.empty()) return;
  struct stat info = {};
  const bool is_there = stat(path.c_str(), &info) == 0;
  if (is_there && S_ISDIR(info.st_mode)) fail(path, EISDIR);
  replaces_ = !is_there || S_ISREG(info.st_mode);
  if (!replaces_) return;
  std::error_code error;
  if (const auto real = std::filesystem::canonical(path, error); !error) target_ = real.string();
  if (is_there && access(path.c_str(), W_OK) != 0) fail(path, errno);
  const auto [name, file] = make_beside(path_, target_);
  unlink(name.c_str());
}

void AtomicFile::write(std::string_view content) const {
  if (target_.empty()) return;
  if (!replaces_) {
    const UniqueFd file(open(target_.c_str(), O_WRONLY | O_CLOEXEC));
    const int code = file.get() < 0 ? errno : write_all(file.get(), content);
    if (code != 0) fail(path_, code);
    return;
  }
  const auto [name, file] = make_beside(path_, target_);
  int code = fchmod(file.get(), rights_of(target_)) == 0 ? write_all(file.get(), content) : errno;
  if (code == 0 && fsync(file.get()) != 0) code = errno;
  if (code == 0 && std::rename(name.c_str(), target_.c_str()) != 0) code = errno;
  if (code == 0) return;
  unlink(name.c_str());
  fail(path_, code);
}

}  // namespace cheetah
