// SPDX-License-Identifier: MIT
#include "cli/input.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "base/table.h"

namespace cheetah {

std::string read_standard_input(int64_t max_bytes) {
  std::string text;
  std::vector<char> chunk(size_t{1} << 16);
  for (;;) {
    const ssize_t got = read(STDIN_FILENO, chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw Error(format("standard input: {}", std::strerror(errno)));
    if (got == 0) return text;
    text.append(chunk.data(), static_cast<size_t>(got));
    if (static_cast<int64_t>(text.size()) > max_bytes)
      throw Error(format("standard input: more than {}", human_bytes(static_cast<double>(max_bytes))));
  }
}

}  // namespace cheetah
