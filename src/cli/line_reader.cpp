// SPDX-License-Identifier: MIT
#include "cli/line_reader.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/format.h"

namespace cheetah {
namespace {
constexpr size_t kMaxLineBytes = size_t{16} << 20;
}

bool LineReader::take_line(std::string& line) {
  const size_t newline = buffer_.find('\n');
  if (newline == std::string::npos) return false;
  line = buffer_.substr(0, newline);
  if (line.ends_with('\r')) line.pop_back();
  buffer_.erase(0, newline + 1);
  return true;
}

bool LineReader::next(std::string& line) {
  char chunk[4096];
  while (!take_line(line)) {
    if (ended_) {
      line = std::exchange(buffer_, "");
      return !line.empty();
    }
    const ssize_t got = read(STDIN_FILENO, chunk, sizeof chunk);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw Error(format("standard input: {}", std::strerror(errno)));
    ended_ = got == 0;
    buffer_.append(chunk, static_cast<size_t>(got));
    if (buffer_.size() > kMaxLineBytes) throw Error("standard input: a line is longer than 16 MiB");
  }
  return true;
}

}  // namespace cheetah
