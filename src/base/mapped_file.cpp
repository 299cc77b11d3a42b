// SPDX-License-Identifier: MIT
#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "base/bus_error_guard.h"
#include "base/error.h"
#include "base/format.h"

namespace cheetah {
namespace {

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

[[noreturn]] void fail(const std::string& path, const char* action) {
  throw Error(format("{}: cannot {}: {}", path, action, std::strerror(errno)));
}

// Magic numbers of linux/magic.h and of the file systems' own sources.
bool page_faults_are_slow(int fd) {
  struct statfs info {};
  if (fstatfs(fd, &info) != 0) return false;
  switch (static_cast<uint32_t>(info.f_type)) {
    case 0x6969u:      // NFS
    case 0xFF534D42u:  // CIFS
    case 0xFE534D42u:  // SMB2
    case 0x0BD00BD0u:  // Lustre
    case 0x00C36400u:  // Ceph
    case 0x65735546u:  // FUSE
    case 0x01021997u:  // 9p
    case 0x19830326u:  // BeeGFS
    case 0x47504653u:  // GPFS
      return true;
    default:
      return false;
  }
}

void read_all(int fd, std::byte* into, int64_t size, const std::string& path) {
  constexpr int64_t kChunk = int64_t{16} << 20;
  for (int64_t done = 0; done < size;) {
    const ssize_t got = ::pread(fd, into + done, static_cast<size_t>(std::min(kChunk, size - done)), done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw Error(format("{}: read error at offset {}: {}", path, done, std::strerror(errno)));
    if (got == 0) throw Error(format("{}: the file shrank to {} bytes while it was read", path, done));
    done += got;
  }
}

}  // namespace

MappedFile MappedFile::open(const std::string& path) {
  // O_NONBLOCK: opening a FIFO must not hang; it has no effect on regular files.
  const Descriptor descriptor{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (descriptor.fd < 0) fail(path, "open");
  struct stat status {};
  if (fstat(descriptor.fd, &status) != 0) fail(path, "stat");
  if (!S_ISREG(status.st_mode)) throw Error(format("{}: not a regular file", path));

  MappedFile file;
  file.path_ = path;
  file.size_ = status.st_size;
  if (file.size_ == 0) return file;
  const auto size = static_cast<size_t>(file.size_);
  if (!page_faults_are_slow(descriptor.fd)) {
    void* data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor.fd, 0);
    if (data == MAP_FAILED) fail(path, "map");
    file.data_ = static_cast<const std::byte*>(data);
    file.mapped_ = true;
    watch_mapping(data, size, path);
    if (fstat(descriptor.fd, &status) != 0) fail(path, "stat");
    if (status.st_size != file.size_) throw Error(format("{}: the file changed while it was opened", path));
    return file;
  }
  posix_fadvise(descriptor.fd, 0, 0, POSIX_FADV_SEQUENTIAL);
  auto* copy = static_cast<std::byte*>(::operator new (size, std::align_val_t{64}));
  file.data_ = copy;
  read_all(descriptor.fd, copy, file.size_, path);
  return file;
}

MappedFile::MappedFile(MappedFile&& other) noexcept { *this = std::move(other); }

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  if (this == &other) return *this;
  release();
  path_ = std::move(other.path_);
  data_ = std::exchange(other.data_, nullptr);
  size_ = std::exchange(other.size_, 0);
  mapped_ = other.mapped_;
  return *this;
}

MappedFile::~MappedFile() { release(); }

void MappedFile::release() {
  if (!data_) return;
  if (mapped_) {
    unwatch_mapping(data_);
    munmap(const_cast<std::byte*>(data_), static_cast<size_t>(size_));
  } else {
    ::operator delete (const_cast<std::byte*>(data_), std::align_val_t{64});
  }
  data_ = nullptr;
}

void MappedFile::prefetch(int64_t offset, int64_t length) const {
  if (!mapped_ || length <= 0) return;
  const int64_t page = sysconf(_SC_PAGESIZE);
  const int64_t begin = offset / page * page;
  madvise(const_cast<std::byte*>(data_) + begin, static_cast<size_t>(offset + length - begin), MADV_WILLNEED);
}

}  // namespace cheetah
