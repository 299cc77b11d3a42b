// SPDX-License-Identifier: MIT
#include "quantize/planned_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "base/format.h"

namespace cheetah {
namespace {

[[noreturn]] void fail(const std::string& path) {
  throw Error(format("{}: cannot be written: {}", path, std::strerror(errno)));
}

UniqueFd open_for_writing(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (fd.get() < 0) fail(path);
  return fd;
}

}  // namespace

PlannedFile::PlannedFile(const std::string& path, FilePlan plan, const std::string& key)
    : path_(path),
      partial_(path + ".partial"),
      journal_path_(path + ".partial.journal"),
      plan_(std::move(plan)),
      file_(open_for_writing(partial_)) {
  if (!resume(key)) start(key);
  journal_.open(journal_path_, std::ios::binary | std::ios::app);
  if (!journal_) fail(journal_path_);
}

// The journal's first line is the key, each further one the name of a tensor that is whole on disk.
bool PlannedFile::resume(const std::string& key) {
  std::error_code error;
  if (std::filesystem::file_size(partial_, error) != static_cast<uintmax_t>(plan_.total_bytes) || error)
    return false;
  std::ifstream in(journal_path_, std::ios::binary);
  std::string line, whole;
  if (!std::getline(in, line) || line != key) return false;
  whole = line + "\n";
  while (std::getline(in, line) && !in.eof()) {
    if (!plan_.pieces.contains(line)) return false;
    written_.insert(line);
    whole += line + "\n";
  }
  in.close();
  write_atomically(journal_path_, whole);  // without a last line that was cut off
  return true;
}

void PlannedFile::start(const std::string& key) {
  written_.clear();
  std::error_code error;
  std::filesystem::remove(journal_path_, error);
  if (::ftruncate(file_.get(), 0) != 0 || ::ftruncate(file_.get(), plan_.total_bytes) != 0) fail(partial_);
  put(0, std::as_bytes(std::span(plan_.header.data(), plan_.header.size())));
  write_atomically(journal_path_, key + "\n");
}

void PlannedFile::put(int64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(file_.get(), bytes.data(), bytes.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) fail(partial_);
    bytes = bytes.subspan(static_cast<size_t>(count));
    offset += count;
  }
}

void PlannedFile::write_part(const std::string& name, int64_t offset, std::span<const std::byte> bytes) {
  const auto at = plan_.pieces.find(name);
  CHEETAH_ASSERT(at != plan_.pieces.end(), "every tensor written is planned");
  CHEETAH_ASSERT(offset + std::ssize(bytes) <= at->second.bytes, "a tensor stays in its place");
  put(at->second.offset + offset, bytes);
}

void PlannedFile::note_written(const std::string& name) {
  if (::fdatasync(file_.get()) != 0) fail(partial_);
  written_.insert(name);
  journal_ << name << "\n";
  if (!journal_.flush()) fail(journal_path_);
}

void PlannedFile::write(const std::string& name, std::span<const std::byte> bytes) {
  const auto at = plan_.pieces.find(name);
  CHEETAH_ASSERT(
      at != plan_.pieces.end() && at->second.bytes == std::ssize(bytes), "a tensor fills its place");
  write_part(name, 0, bytes);
  note_written(name);
}

void PlannedFile::patch(int64_t offset, std::string_view text) {
  CHEETAH_ASSERT(offset + std::ssize(text) <= std::ssize(plan_.header), "only the header is patched");
  put(offset, std::as_bytes(std::span(text.data(), text.size())));
}

void PlannedFile::finish() {
  CHEETAH_ASSERT(written_.size() == plan_.pieces.size(), "every tensor is written");
  if (::fsync(file_.get()) != 0) fail(partial_);
  if (std::rename(partial_.c_str(), path_.c_str()) != 0) fail(path_);
  journal_.close();
  std::error_code error;
  std::filesystem::remove(journal_path_, error);
}

void write_atomically(const std::string& path, std::string_view text) {
  const std::string beside = path + ".tmp";
  std::ofstream out(beside, std::ios::binary | std::ios::trunc);
  out << text;
  if (!out.flush()) fail(beside);
  out.close();
  if (std::rename(beside.c_str(), path.c_str()) != 0) fail(path);
}

}  // namespace cheetah
