// SPDX-License-Identifier: MIT
#include "observe/log_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "base/format.h"

namespace cheetah {

LogFile::LogFile(LogFileConfig config, std::chrono::milliseconds interval) : config_(std::move(config)) {
  look();
  if (interval.count() == 0) return;
  thread_ = std::thread([this, interval] {
    while (!stop_.closed()) {
      stop_.wait_until(std::chrono::steady_clock::now() + interval);
      look();
    }
  });
}

LogFile::~LogFile() {
  stop_.close();
  if (thread_.joinable()) thread_.join();
}

std::string LogFile::full_file(int number) const { return format("{}.{}", config_.path, number); }

int LogFile::open_new(const std::string& path) const {
  return open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

void LogFile::lead_to(int file) {
  for (const int descriptor : config_.descriptors) dup2(file, descriptor);
  close(file);
}

// True: the descriptors lead to what is at the path.
bool LogFile::open_again() {
  struct stat there = {}, ours = {};
  const bool same = stat(config_.path.c_str(), &there) == 0 &&
                    fstat(config_.descriptors.front(), &ours) == 0 && there.st_dev == ours.st_dev &&
                    there.st_ino == ours.st_ino;
  if (same) return true;
  const int file = open_new(config_.path);
  if (file < 0) return false;  // its folder is gone, or the disk is full: tried again
  lead_to(file);
  return true;
}

void LogFile::look() {
  if (!open_again() || config_.max_bytes <= 0) return;
  struct stat now = {};
  if (fstat(config_.descriptors.front(), &now) == 0 && now.st_size >= config_.max_bytes) rotate();
}

// The new file is there before anything is moved, so that a disk without space for it changes nothing but the
// oldest full file, which makes room.
void LogFile::rotate() {
  const std::string next = config_.path + ".new";
  unlink(next.c_str());  // of a process that ended here
  int file = open_new(next);
  if (file < 0 && (errno == ENOSPC || errno == EDQUOT)) {
    for (int number = config_.keep; number > 0; --number)
      if (unlink(full_file(number).c_str()) == 0) break;
    file = open_new(next);
  }
  if (file < 0) return;
  int last = 1;  // the first that is not there, or the oldest, which goes
  while (last < config_.keep && access(full_file(last).c_str(), F_OK) == 0) ++last;
  for (int number = last - 1; number > 0; --number)
    rename(full_file(number).c_str(), full_file(number + 1).c_str());
  if (config_.keep > 0) rename(config_.path.c_str(), full_file(1).c_str());
  if (rename(next.c_str(), config_.path.c_str()) != 0) {
    close(file);
    return;
  }
  lead_to(file);
}

}  // namespace cheetah
