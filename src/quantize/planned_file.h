// SPDX-License-Identifier: MIT
#pragma once
// A file whose layout is known before its contents: written in any order beside its place, resumable, and
// renamed into place when whole.
#include <cstdint>
#include <fstream>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "base/unique_fd.h"

namespace cheetah {

struct PlannedPiece {
  int64_t offset = 0;
  int64_t bytes = 0;
};

struct FilePlan {
  std::string header;                                       // from the first byte
  std::map<std::string, PlannedPiece, std::less<>> pieces;  // by tensor
  int64_t total_bytes = 0;
};

class PlannedFile {
 public:
  // `key` tells what is written: a partial file of the same key is gone on with, another one begun anew.
  PlannedFile(const std::string& path, FilePlan plan, const std::string& key);

  bool is_written(const std::string& name) const { return written_.contains(name); }
  int64_t num_written() const { return static_cast<int64_t>(written_.size()); }
  void write(const std::string& name, std::span<const std::byte> bytes);
  // Pieces of a tensor too large for one buffer; the last call of a tensor is note_written().
  void write_part(const std::string& name, int64_t offset, std::span<const std::byte> bytes);
  void note_written(const std::string& name);
  // Overwrites bytes of the header, once all is written.
  void patch(int64_t offset, std::string_view text);
  // To disk and into its place.
  void finish();
  const std::string& partial_path() const { return partial_; }

 private:
  bool resume(const std::string& key);
  void start(const std::string& key);
  void put(int64_t offset, std::span<const std::byte> bytes);
  std::string path_;
  std::string partial_;
  std::string journal_path_;
  FilePlan plan_;
  UniqueFd file_;
  std::ofstream journal_;
  std::set<std::string, std::less<>> written_;
};

// Writes a small file beside its place and renames it.
void write_atomically(const std::string& path, std::string_view text);

}  // namespace cheetah
