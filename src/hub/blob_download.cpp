// SPDX-License-Identifier: MIT
#include "hub/blob_download.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "base/unique_fd.h"
#include "hub/digest.h"

namespace cheetah::hub {
namespace {

namespace fs = std::filesystem;

constexpr int kMostTries = 8;      // in a row without a byte
constexpr int kMostWrongSums = 2;  // of whole files
constexpr std::chrono::milliseconds kFirstPause{200}, kLongestPause{10000};

int64_t size_of(const std::string& path) {
  struct stat info = {};
  return stat(path.c_str(), &info) == 0 ? info.st_size : -1;
}

[[noreturn]] void fail_to_write(const std::string& path, int code) {
  if (code == ENOSPC || code == EDQUOT)
    throw Error(format(
        "{}: no space is left; what has come is kept, free some and run the same command again", path));
  throw Error(format("{}: {}", path, std::strerror(code)));
}

// The file on its way, and the checksum of what is in it.
class Incomplete {
 public:
  Incomplete(const BlobPlan& plan, const Advance& advance)
      : path_(plan.blob + ".incomplete"),
        total_(plan.file.bytes),
        advance_(advance),
        digest_(plan.file.etag, plan.file.bytes),
        file_(open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
    if (!file_) fail_to_write(path_, errno);
    const int64_t there = size_of(path_);
    there > total_ ? restart() : read_back(there);
  }

  int64_t size() const { return size_; }
  bool is_whole() const { return size_ == total_; }

  void append(std::string_view bytes) {
    if (size_ + static_cast<int64_t>(bytes.size()) > total_)
      throw Transient{"more bytes came than the file has"};
    digest_.add(bytes);
    for (std::string_view left = bytes; !left.empty();) {
      const ssize_t wrote = ::write(file_.get(), left.data(), left.size());
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote < 0) fail_to_write(path_, errno);
      left.remove_prefix(static_cast<size_t>(wrote));
    }
    size_ += static_cast<int64_t>(bytes.size());
    advance_(static_cast<int64_t>(bytes.size()));
  }

  void restart() {
    if (ftruncate(file_.get(), 0) != 0 || lseek(file_.get(), 0, SEEK_SET) != 0) fail_to_write(path_, errno);
    advance_(-size_);
    size_ = 0;
    digest_.restart();
  }

  std::string checksum() { return digest_.finish(); }

  void become(const std::string& blob) {
    if (fsync(file_.get()) != 0 || std::rename(path_.c_str(), blob.c_str()) != 0) fail_to_write(path_, errno);
  }

 private:
  void read_back(int64_t there) {
    std::vector<char> chunk(size_t{1} << 20);
    while (size_ < there) {
      const ssize_t got = ::read(file_.get(), chunk.data(), chunk.size());
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) fail_to_write(path_, got < 0 ? errno : EIO);
      digest_.add({chunk.data(), static_cast<size_t>(got)});
      size_ += got;
    }
    if (lseek(file_.get(), size_, SEEK_SET) < 0) fail_to_write(path_, errno);
  }

  std::string path_;
  int64_t total_, size_ = 0;
  const Advance& advance_;
  Digest digest_;
  UniqueFd file_;
};

// Waits while another program downloads the same file.
UniqueFd take_lock(const std::string& path, const HttpFetch::Stop& stop) {
  UniqueFd lock(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!lock) fail_to_write(path, errno);
  while (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) fail_to_write(path, errno);
    if (stop()) throw Error("interrupted");
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return lock;
}

void pause(std::chrono::milliseconds time, const HttpFetch::Stop& stop) {
  for (; time.count() > 0 && !stop(); time -= std::chrono::milliseconds(50))
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
}

// One GET of what is missing. Throws Transient when it does not bring everything.
void fetch_rest(HttpFetch& fetch, const BlobPlan& plan, Incomplete& file) {
  int status = 0;
  const HttpFetch::Sinks sinks{.head =
                                   [&](int got) {
                                     status = got;
                                     if (status == 200 && file.size() > 0)
                                       file.restart();  // the server does not resume
                                   },
      .body =
          [&](std::string_view bytes) {
            if (status == 200 || status == 206) file.append(bytes);
          }};
  fetch.get(plan.address, file.size(), sinks);
  if (status == 416) file.restart();
  if (status == 416 || may_pass(status)) throw Transient{format("answered {}", status)};
  if (status != 200 && status != 206) throw Error(format("{}: the hub answered {}", plan.file.path, status));
  if (!file.is_whole()) throw Transient{"the connection ended early"};
}

void complete(HttpFetch& fetch, const BlobPlan& plan, const HttpFetch::Stop& stop, Incomplete& file) {
  auto wait = kFirstPause;
  for (int tries = 0; !file.is_whole();) {
    const int64_t before = file.size();
    try {
      fetch_rest(fetch, plan, file);
    } catch (const Transient& trouble) {
      const bool moved = file.size() > before;
      tries = moved ? 0 : tries + 1;
      if (moved) wait = kFirstPause;
      if (tries >= kMostTries)
        throw Error(format(
            "{}: {} tries brought nothing: {}; what has come is kept", plan.file.path, tries, trouble.why));
      pause(wait, stop);
      if (stop()) throw Error("interrupted");
      wait = std::min(2 * wait, kLongestPause);
    }
  }
}

}  // namespace

bool is_complete(const BlobPlan& plan) { return size_of(plan.blob) == plan.file.bytes; }

int64_t bytes_missing(const BlobPlan& plan) {
  if (is_complete(plan)) return 0;
  const int64_t there = size_of(plan.blob + ".incomplete");
  return plan.file.bytes - (there > 0 && there <= plan.file.bytes ? there : 0);
}

void download_blob(
    HttpFetch& fetch, const BlobPlan& plan, const HttpFetch::Stop& stop, const Advance& advance) {
  const UniqueFd lock = take_lock(plan.lock, stop);
  if (is_complete(plan)) return;  // another program was faster
  Incomplete file(plan, advance);
  for (int wrong = 0;;) {
    complete(fetch, plan, stop, file);
    const std::string sum = file.checksum();
    if (sum == plan.file.etag) break;
    file.restart();
    if (++wrong == kMostWrongSums)
      throw Error(format("{}: the bytes that come have checksum {} instead of {}; nothing of it is kept",
          plan.file.path, sum.substr(0, 16), plan.file.etag.substr(0, 16)));
  }
  file.become(plan.blob);
}

}  // namespace cheetah::hub
