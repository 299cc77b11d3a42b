// SPDX-License-Identifier: MIT
#include "doctor/source.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/format.h"
#include "base/unique_fd.h"

namespace cheetah::doctor {
namespace {

constexpr std::string_view kProbeFolder = "cheetah/";

Text absent(const std::string& path, int error) {
  const bool missing = error == ENOENT || error == ENOTDIR || error == ENODEV || error == ENXIO;
  std::string reason = missing ? "there is no such file" : std::strerror(error);
  if (error == EACCES || error == EPERM) reason = "permission denied; root may read it";
  if (error == ELOOP || error == EXDEV) reason = "its links run in a circle or out of the root";
  return {path, "", missing ? Absence::kMissing : Absence::kUnreadable, std::move(reason)};
}

bool has_parent_step(const std::string& path) { return ("/" + path + "/").find("/../") != std::string::npos; }

// Without openat2 (old kernels, strict sandboxes): resolve first, then compare.
int open_resolved(const std::string& root, const std::string& path, int flags) {
  char* real = realpath((root + "/" + path).c_str(), nullptr);
  if (real == nullptr) return -1;
  const std::string resolved(real);
  std::free(real);
  char* real_root = realpath(root.c_str(), nullptr);
  if (real_root == nullptr) return -1;
  const std::string prefix = std::string(real_root) + "/";
  std::free(real_root);
  if (resolved.compare(0, prefix.size(), prefix) != 0) {
    errno = EXDEV;
    return -1;
  }
  return open(resolved.c_str(), flags | O_NOFOLLOW);
}

Text read_open(int fd, const std::string& path, int64_t limit) {
  struct stat info {};
  if (fstat(fd, &info) != 0) return absent(path, errno);
  if (!S_ISREG(info.st_mode)) return {path, "", Absence::kUnreadable, "it is not a regular file"};
  Text result{path, "", Absence::kNone, ""};
  char buffer[16384];
  while (static_cast<int64_t>(result.text.size()) < limit) {
    const int64_t left = limit - static_cast<int64_t>(result.text.size());
    const ssize_t got = ::read(fd, buffer, std::min<size_t>(sizeof buffer, static_cast<size_t>(left)));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return absent(path, errno);
    if (got == 0) break;
    result.text.append(buffer, static_cast<size_t>(got));
  }
  return result;
}

std::shared_ptr<const int> shared_fd(int fd) {
  return {new int(fd), [](const int* owned) {
            close(*owned);
            delete owned;
          }};
}

}  // namespace

FolderSource::FolderSource(std::string root, Probes probes)
    : root_(std::move(root)), probes_(std::move(probes)) {
  const int fd = open(root_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) throw Error(format("{}: {}: expected the folder of a root", root_, std::strerror(errno)));
  root_fd_ = shared_fd(fd);
}

int FolderSource::open_inside(const std::string& path, int flags) const {
  flags |= O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  if (path.find('\0') != std::string::npos || has_parent_step(path)) {
    errno = ENOENT;
    return -1;
  }
  if (root_ == "/") return openat(*root_fd_, path.empty() ? "." : path.c_str(), flags);
  struct open_how how {};
  how.flags = static_cast<uint64_t>(flags);
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
  const long fd = syscall(SYS_openat2, *root_fd_, path.empty() ? "." : path.c_str(), &how, sizeof how);
  if (fd < 0 && (errno == ENOSYS || errno == EPERM)) return open_resolved(root_, path, flags);
  return static_cast<int>(fd);
}

Text FolderSource::read(const std::string& path, int64_t limit) const {
  if (path.compare(0, kProbeFolder.size(), kProbeFolder) == 0) {
    const std::string rest = path.substr(kProbeFolder.size());
    const size_t slash = std::min(rest.find('/'), rest.size());
    const auto probe = probes_.find(rest.substr(0, slash));
    if (probe != probes_.end()) {
      Text answer = probe->second(slash < rest.size() ? rest.substr(slash + 1) : "");
      answer.path = path;
      if (static_cast<int64_t>(answer.text.size()) > limit) answer.text.resize(static_cast<size_t>(limit));
      return answer;
    }
  }
  const UniqueFd fd(open_inside(path, O_RDONLY));
  if (fd.get() < 0) return absent(path, errno);
  return read_open(fd.get(), path, limit);
}

std::vector<std::string> FolderSource::list(const std::string& path) const {
  UniqueFd fd(open_inside(path, O_RDONLY | O_DIRECTORY));
  if (fd.get() < 0) return {};
  DIR* folder = fdopendir(fd.get());
  if (folder == nullptr) return {};
  fd.release();
  std::vector<std::string> names;
  while (const dirent* entry = readdir(folder)) {
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    names.push_back(name);
    if (static_cast<int64_t>(names.size()) >= kMaxListEntries) break;
  }
  closedir(folder);
  std::sort(names.begin(), names.end());
  return names;
}

std::string FolderSource::link(const std::string& path) const {
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : path.substr(0, slash);
  const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  const UniqueFd fd(open_inside(folder, O_RDONLY | O_DIRECTORY));
  if (fd.get() < 0) return "";
  char target[4096];
  const ssize_t length = readlinkat(fd.get(), name.c_str(), target, sizeof target);
  return length < 0 ? "" : std::string(target, static_cast<size_t>(length));
}

Text MemorySource::read(const std::string& path, int64_t limit) const {
  const auto found = texts_.find(path);
  if (found == texts_.end()) return absent(path, ENOENT);
  Text text = found->second;
  if (static_cast<int64_t>(text.text.size()) > limit) text.text.resize(static_cast<size_t>(limit));
  return text;
}

std::vector<std::string> MemorySource::list(const std::string& path) const {
  std::set<std::string> names;
  if (const auto found = lists_.find(path); found != lists_.end())
    names.insert(found->second.begin(), found->second.end());
  const std::string prefix = path.empty() ? "" : path + "/";
  const auto add_below = [&](const auto& entries) {
    for (auto at = entries.lower_bound(prefix); at != entries.end(); ++at) {
      if (at->first.compare(0, prefix.size(), prefix) != 0) break;
      names.insert(at->first.substr(prefix.size(), at->first.find('/', prefix.size()) - prefix.size()));
    }
  };
  add_below(texts_);
  add_below(links_);
  return {names.begin(), names.end()};
}

std::string MemorySource::link(const std::string& path) const {
  const auto found = links_.find(path);
  return found == links_.end() ? "" : found->second;
}

void MemorySource::set(const std::string& path, std::string text) {
  texts_[path] = {path, std::move(text), Absence::kNone, ""};
}

void MemorySource::set(const Text& text) { texts_[text.path] = text; }

void MemorySource::set_list(const std::string& path, std::vector<std::string> names) {
  lists_[path] = std::move(names);
}

void MemorySource::remove(const std::string& path) {
  const auto gone = [&](const auto& entry) {
    return entry.first == path || entry.first.compare(0, path.size() + 1, path + "/") == 0;
  };
  std::erase_if(texts_, gone);
  std::erase_if(links_, gone);
  std::erase_if(lists_, gone);
}

Text RecordingSource::read(const std::string& path, int64_t limit) const {
  Text text = below_->read(path, limit);
  seen_.set(text);
  return text;
}

std::vector<std::string> RecordingSource::list(const std::string& path) const {
  std::vector<std::string> names = below_->list(path);
  if (!names.empty()) seen_.set_list(path, names);
  return names;
}

std::string RecordingSource::link(const std::string& path) const {
  std::string target = below_->link(path);
  if (!target.empty()) seen_.set_link(path, target);
  return target;
}

void RecordingSource::append_to(MemorySource& all) const {
  for (const auto& [path, text] : seen_.texts()) all.set(text);
  for (const auto& [path, target] : seen_.links()) all.set_link(path, target);
  for (const auto& [path, names] : seen_.lists()) all.set_list(path, names);
}

}  // namespace cheetah::doctor
