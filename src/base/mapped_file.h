// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace cheetah {

// A whole regular file, readable as bytes. Mapped where the file system serves page faults well; read into
// memory where it does not (network and cluster file systems: one round trip per page of a mapping). Owns
// the mapping or the copy; movable; views into it live as long as it does.
class MappedFile {
 public:
  // Throws Error when the path is missing, unreadable, not a regular file.
  static MappedFile open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, static_cast<size_t>(size_)}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), static_cast<size_t>(size_)}; }
  int64_t size() const { return size_; }
  const std::string& path() const { return path_; }
  bool is_mapped() const { return mapped_; }

  // Asks the kernel to read this part ahead of use.
  void prefetch(int64_t offset, int64_t length) const;

 private:
  MappedFile() = default;
  void release();
  std::string path_;
  const std::byte* data_ = nullptr;
  int64_t size_ = 0;
  bool mapped_ = false;
};

}  // namespace cheetah
