// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <string>

namespace cheetah {

// All of standard input, byte for byte. Throws Error beyond max_bytes or when reading fails.
std::string read_standard_input(int64_t max_bytes = int64_t{1} << 30);

}  // namespace cheetah
