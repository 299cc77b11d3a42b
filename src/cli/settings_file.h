// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <vector>

namespace cheetah {

struct FileSetting {
  std::string name;   // tables joined by "-": [log] level -> log-level
  std::string text;   // as a flag would say it; arrays joined by commas
  std::string where;  // file:line:column
};

// The settings of a TOML file in order. Throws UsageError with the place of a mistake.
std::vector<FileSetting> read_settings_file(const std::string& path);

}  // namespace cheetah
