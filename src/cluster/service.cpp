// SPDX-License-Identifier: MIT
#include "cluster/service.h"

#include <fstream>

#include "base/error.h"
#include "base/format.h"
#include "base/text.h"

namespace cheetah::cluster {

std::string password_in(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line))
    throw Error(format("{}: cannot be read: expected a password on its first line", printable(path, 256)));
  return std::string(trimmed(line));
}

}  // namespace cheetah::cluster
