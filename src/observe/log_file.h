// SPDX-License-Identifier: MIT
#pragma once
// A process's own output in a file of limited size: when it is full it becomes FILE.1, the one before FILE.2,
// and so on, and a new one is begun. No line is lost: whatever writes to the descriptors writes to the old file
// until the moment they lead to the new one. On a full disk the old file stays until there is space again.
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "base/mailbox.h"

namespace cheetah {

struct LogFileConfig {
  std::string path;
  int64_t max_bytes = int64_t{64} << 20;  // 0: without limit
  int keep = 4;                           // full files
  std::vector<int> descriptors = {1, 2};  // that lead to it
};

class LogFile {
 public:
  // Looks by itself about every `interval`; 0: only when look() is called.
  explicit LogFile(LogFileConfig config, std::chrono::milliseconds interval = std::chrono::milliseconds(250));
  ~LogFile();
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;

  // Begins a new file where the present one is full, or is gone from its folder. One thread at a time.
  void look();

 private:
  int open_new(const std::string& path) const;
  bool open_again();
  void rotate();
  void lead_to(int file);
  std::string full_file(int number) const;

  const LogFileConfig config_;
  Mailbox<char> stop_;
  std::thread thread_;  // last: ends before the rest
};

}  // namespace cheetah
