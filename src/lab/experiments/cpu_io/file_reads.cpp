// SPDX-License-Identifier: MIT
// A file that the page cache holds, summed: read in pieces, read whole, mapped, and through io_uring.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>

#if CHEETAH_HAS_URING
#include <liburing.h>
#endif

#include "base/error.h"
#include "base/format.h"
#include "lab/array_trial.h"

namespace cheetah::lab {
namespace {

constexpr int64_t kPiece = 256 << 10;

uint64_t sum_words(const uint64_t* words, int64_t count) {
  uint64_t sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += words[i];
  return sum;
}

// A file without a name; word i holds i.
class NamelessFile {
 public:
  explicit NamelessFile(int64_t bytes) : bytes_(bytes) {
    std::string path = (std::filesystem::temp_directory_path() / "cheetah_lab_XXXXXX").string();
    fd_ = mkstemp(path.data());
    if (fd_ < 0) throw Error(format("{}: cannot be made: {}", path, std::generic_category().message(errno)));
    unlink(path.c_str());
    std::vector<uint64_t> words(static_cast<size_t>(kPiece / 8));
    for (int64_t at = 0; at < bytes; at += kPiece) {
      for (size_t i = 0; i < words.size(); ++i) words[i] = static_cast<uint64_t>(at / 8) + i;
      if (pwrite(fd_, words.data(), kPiece, at) != kPiece)
        throw Error("the lab's temporary file cannot be written: is the disk full?");
    }
  }
  ~NamelessFile() { close(fd_); }
  NamelessFile(const NamelessFile&) = delete;
  NamelessFile& operator=(const NamelessFile&) = delete;
  int fd() const { return fd_; }
  int64_t bytes() const { return bytes_; }

 private:
  int fd_ = -1;
  int64_t bytes_;
};

void read_exactly(int fd, void* to, int64_t bytes, int64_t offset) {
  for (auto* out = static_cast<std::byte*>(to); bytes > 0;) {
    const ssize_t got = pread(fd, out, static_cast<size_t>(bytes), offset);
    if (got <= 0) throw Error("the lab's temporary file cannot be read");
    out += got, offset += got, bytes -= got;
  }
}

uint64_t sum_by_reads(const NamelessFile& file, std::vector<uint64_t>& buffer, int64_t piece) {
  uint64_t sum = 0;
  for (int64_t at = 0; at < file.bytes(); at += piece) {
    read_exactly(file.fd(), buffer.data(), piece, at);
    sum += sum_words(buffer.data(), piece / 8);
  }
  return sum;
}

uint64_t sum_mapped(const NamelessFile& file, int flags) {
  void* data = mmap(nullptr, static_cast<size_t>(file.bytes()), PROT_READ, MAP_SHARED | flags, file.fd(), 0);
  if (data == MAP_FAILED) throw Error("the lab's temporary file cannot be mapped");
  const uint64_t sum = sum_words(static_cast<const uint64_t*>(data), file.bytes() / 8);
  munmap(data, static_cast<size_t>(file.bytes()));
  return sum;
}

#if CHEETAH_HAS_URING
// Keeps kDepth reads under way; sums each piece as it arrives.
class UringReader {
 public:
  UringReader() : ready_(io_uring_queue_init(kDepth, &ring_, 0) == 0), buffers_(kDepth * kPiece / 8) {}
  ~UringReader() {
    if (ready_) io_uring_queue_exit(&ring_);
  }
  UringReader(const UringReader&) = delete;
  UringReader& operator=(const UringReader&) = delete;
  explicit operator bool() const { return ready_; }

  uint64_t sum(const NamelessFile& file) {
    uint64_t total = 0;
    const int64_t pieces = file.bytes() / kPiece;
    int64_t asked = 0;
    for (; asked < std::min<int64_t>(kDepth, pieces); ++asked) ask(file, asked, asked);
    io_uring_submit(&ring_);
    for (int64_t done = 0; done < pieces; ++done) {
      io_uring_cqe* answer = nullptr;
      if (io_uring_wait_cqe(&ring_, &answer) != 0 || answer->res != kPiece)
        throw Error("the lab's temporary file cannot be read through io_uring");
      const auto slot = static_cast<int64_t>(answer->user_data);
      io_uring_cqe_seen(&ring_, answer);
      total += sum_words(buffer(slot), kPiece / 8);
      if (asked < pieces) {
        ask(file, asked++, slot);
        io_uring_submit(&ring_);
      }
    }
    return total;
  }

 private:
  static constexpr int64_t kDepth = 8;
  uint64_t* buffer(int64_t slot) { return buffers_.data() + slot * kPiece / 8; }
  void ask(const NamelessFile& file, int64_t piece, int64_t slot) {
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    io_uring_prep_read(entry, file.fd(), buffer(slot), kPiece, static_cast<uint64_t>(piece * kPiece));
    entry->user_data = static_cast<uint64_t>(slot);
  }

  io_uring ring_{};
  bool ready_;
  std::vector<uint64_t> buffers_;
};
#endif

std::unique_ptr<Trial> make(const Setup& setup) {
  const int64_t bytes = setup.dim(0);  // whole pieces
  auto trial = std::make_unique<ArrayTrial>(setup);
  const auto salt =
      trial->input<uint64_t>("salt", 1, 0, 1e6);  // the file stays, the answer changes with each fill
  const auto sum = trial->output<uint64_t>("sum", 1);
  trial->set_cost({.bytes = static_cast<double>(bytes), .roof = Roof::kNone});
  trial->reference([=](const HostArrays& host) {
    const auto words = static_cast<uint64_t>(bytes / 8);
    host[sum][0] = host[salt][0] + words * (words - 1) / 2;
  });
  const auto file = std::make_shared<NamelessFile>(bytes);
  const auto buffer = std::make_shared<std::vector<uint64_t>>(static_cast<size_t>(bytes / 8));
  trial->variant(
      "read 4 KiB", [=](const Launch& at) { *at[sum] = *at[salt] + sum_by_reads(*file, *buffer, 4096); });
  trial->variant(
      "read 256 KiB", [=](const Launch& at) { *at[sum] = *at[salt] + sum_by_reads(*file, *buffer, kPiece); });
  trial->variant(
      "read whole", [=](const Launch& at) { *at[sum] = *at[salt] + sum_by_reads(*file, *buffer, bytes); });
  trial->variant("mapped", [=](const Launch& at) { *at[sum] = *at[salt] + sum_mapped(*file, 0); });
  trial->variant(
      "mapped, populated", [=](const Launch& at) { *at[sum] = *at[salt] + sum_mapped(*file, MAP_POPULATE); });
#if CHEETAH_HAS_URING
  if (const auto reader = std::make_shared<UringReader>(); *reader)
    trial->variant("io_uring", [=](const Launch& at) { *at[sum] = *at[salt] + reader->sum(*file); });
  else
    trial->refuse("io_uring", "this system does not allow io_uring");
#else
  trial->refuse("io_uring", "built without liburing");
#endif
  return trial;
}

const Registered kFileReads({
    .id = "cpu/file-reads",
    .title = "Reading a cached file",
    .question = "Which way of reading a file that is in memory already costs least?",
    .mechanism =
        "A read copies, and each call enters the kernel: small reads pay for entries, whole reads leave the "
        "caches between copy and use. A mapping copies nothing but faults page by page, unless it is "
        "populated at once. io_uring keeps several reads under way, which a cached file hardly needs.",
    .claim = {.text = "Asynchronous and mapped I/O keep the CPU from waiting on storage."},
    .domain = Domain::kCpu,
    .rotation = Rotation::kHot,
    .variants = {{"read 4 KiB", "pread a page at a time"}, {"read 256 KiB", "pread what the L2 holds"},
        {"read whole", "one pread, then the sum"}, {"mapped", "mmap, faults as they come"},
        {"mapped, populated", "mmap with all pages at once"},
        {"io_uring", "eight reads of 256 KiB under way"}},
    .sizes = {{"1 MiB", {1 << 20}}, {"64 MiB", {64 << 20}}},
    .quick = {{"16 MiB", {16 << 20}}},
    .make = make,
});

}  // namespace
}  // namespace cheetah::lab
