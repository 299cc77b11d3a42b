// SPDX-License-Identifier: MIT
#pragma once
// For tests: the reference models in the source tree, found by looking.
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string>
#include <vector>

namespace cheetah {

// Folders of tests/models and models with a golden.json, and the GGUF files of tests/models/gguf.
inline std::vector<std::string> reference_models() {
  namespace fs = std::filesystem;
  std::vector<std::string> paths;
  for (const char* folder : {"tests/models", "models", "tests/models/gguf"})
    for (const auto& entry : fs::directory_iterator(fs::path(CHEETAH_SOURCE_DIR) / folder))
      if (fs::exists(entry.path() / "golden.json") || entry.path().extension() == ".gguf")
        paths.push_back(entry.path().string());
  std::ranges::sort(paths);
  return paths;
}

// A path's last part as a test's name.
inline std::string test_name(const std::string& path) {
  std::string name = std::filesystem::path(path).filename().string();
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
}

}  // namespace cheetah
