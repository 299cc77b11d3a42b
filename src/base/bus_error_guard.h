// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <string>

namespace cheetah {

// A mapped file that is truncated, or whose disk fails, while we read it raises SIGBUS. The guard turns that
// into one sentence that names the file and exit code 1. The first watched mapping installs it; a bus error
// elsewhere goes to the previous handler. At most 1024 mappings are watched at a time.
void watch_mapping(const void* begin, size_t bytes, const std::string& path);
void unwatch_mapping(const void* begin);

}  // namespace cheetah
