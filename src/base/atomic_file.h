// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <string_view>

namespace cheetah {

// A file that is replaced whole or not at all: until write() has put everything on the disk, the old content stays.
// "" names no file; what is not a regular file (a pipe, /dev/null) is written to directly.
class AtomicFile {
 public:
  // Tries at once whether the folder takes a new file, so that a wrong path costs no time. Throws Error.
  explicit AtomicFile(const std::string& path);
  // Writes beside the file and renames. Throws Error; the old file is then untouched.
  void write(std::string_view content) const;

 private:
  std::string path_;      // as given, for messages
  std::string target_;    // where its links lead; "": nowhere
  bool replaces_ = true;  // by renaming
};

}  // namespace cheetah
