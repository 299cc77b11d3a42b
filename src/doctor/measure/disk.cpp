// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <random>

#include "base/format.h"
#include "base/statistics.h"
#include "doctor/measure.h"
#include "doctor/measure/timing.h"

namespace cheetah::doctor {
namespace {

constexpr size_t kPiece = size_t{1} << 20;
constexpr size_t kPage = 4096;
constexpr double kMostSeconds = 3;

// A file that is gone when its descriptor closes, whatever happens to us.
class ScratchFile {
 public:
  explicit ScratchFile(const std::string& folder)
      : fd_(open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600)) {
    if (fd_ >= 0) return;
    std::string name = folder + "/cheetah-doctor-XXXXXX";
    fd_ = mkostemp(name.data(), O_CLOEXEC);
    if (fd_ >= 0) unlink(name.c_str());
  }
  ~ScratchFile() {
    if (fd_ >= 0) close(fd_);
  }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};

int64_t bytes_to_use(const MeasureOptions& options) {
  struct statvfs info {};
  if (statvfs(options.folder.c_str(), &info) != 0) return 0;
  const auto free_bytes = static_cast<int64_t>(info.f_bavail) * static_cast<int64_t>(info.f_frsize);
  return std::min(options.file_bytes, free_bytes / 10) / static_cast<int64_t>(kPiece) *
         static_cast<int64_t>(kPiece);
}

int64_t write_all(int fd, int64_t bytes, char* buffer, Results& results) {
  std::mt19937_64 random(7);  // noise, so that no compressing disk helps
  for (size_t i = 0; i < kPiece; i += 8) {
    const uint64_t word = random();
    std::memcpy(buffer + i, &word, 8);
  }
  const auto begin = MeasureClock::now();
  int64_t written = 0;
  while (written < bytes && seconds_since(begin) < kMostSeconds) {
    const ssize_t wrote = pwrite(fd, buffer, kPiece, written);
    if (wrote <= 0) break;
    written += wrote;
  }
  fdatasync(fd);
  if (written > 0) results.add("disk.write", static_cast<double>(written) / seconds_since(begin));
  return written / static_cast<int64_t>(kPiece) * static_cast<int64_t>(kPiece);
}

void measure_syncs(int fd, char* buffer, Results& results) {
  std::vector<double> milliseconds;
  const auto begin = MeasureClock::now();
  for (int i = 0; i < 30 && seconds_since(begin) < 1.5; ++i) {
    const auto start = MeasureClock::now();
    if (pwrite(fd, buffer, kPage, static_cast<off_t>(i) * static_cast<off_t>(kPage)) < 0 ||
        fdatasync(fd) != 0)
      return;
    milliseconds.push_back(1000 * seconds_since(start));
  }
  results.add("disk.fsync_ms.p50", quantile(milliseconds, 0.5));
  results.add("disk.fsync_ms.p99", quantile(milliseconds, 0.99));
}

void measure_reads(int fd, int64_t bytes, char* buffer, Results& results) {
  posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  const bool direct = fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_DIRECT) == 0;
  const auto begin = MeasureClock::now();
  int64_t done = 0;
  while (done < bytes && seconds_since(begin) < kMostSeconds) {
    const ssize_t got = pread(fd, buffer, kPiece, done);
    if (got <= 0) break;
    done += got;
  }
  if (done == 0) return results.skip("disk.read", "the file cannot be read back");
  results.add("disk.read", static_cast<double>(done) / seconds_since(begin));
  results.add("disk.read_direct", direct ? 1 : 0);
  std::mt19937_64 random(3);
  int64_t reads = 0;
  const auto start = MeasureClock::now();
  while (seconds_since(start) < 0.5) {
    const auto page =
        static_cast<off_t>(random() % static_cast<uint64_t>(done / static_cast<int64_t>(kPage)));
    if (pread(fd, buffer, kPage, page * static_cast<off_t>(kPage)) <= 0) break;
    ++reads;
  }
  results.add("disk.random_reads", static_cast<double>(reads) / seconds_since(start));
}

}  // namespace

void measure_disk(const MeasureOptions& options, Results& results) {
  const int64_t bytes = bytes_to_use(options);
  const ScratchFile file(options.folder);
  if (file.get() < 0 || bytes < static_cast<int64_t>(kPiece))
    return results.skip("disk.read", format("{} cannot be written to or is nearly full", options.folder));
  const std::unique_ptr<char, Free> buffer(static_cast<char*>(std::aligned_alloc(kPage, kPiece)));
  if (buffer == nullptr) return results.skip("disk.read", "out of memory");
  const int64_t written = write_all(file.get(), bytes, buffer.get(), results);
  measure_syncs(file.get(), buffer.get(), results);
  if (written > 0) measure_reads(file.get(), written, buffer.get(), results);
}

}  // namespace cheetah::doctor
