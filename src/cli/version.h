// SPDX-License-Identifier: MIT
#pragma once
#include <string>

namespace cheetah {

// What this binary was built from and with.
struct BuildInfo {
  std::string version;
  std::string commit;
  std::string compiler;
  std::string cuda;  // "" without
};
BuildInfo build_info();

// What --version prints.
std::string version_text();

}  // namespace cheetah
