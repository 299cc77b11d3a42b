// SPDX-License-Identifier: MIT
#pragma once
// Numbers as people write them on a command line.
#include <cstdint>
#include <string>

namespace CLI {
class Option;
}

namespace cheetah {

// "512", "32k" (32,000), "32K" (32,768), likewise m/M and g/G. Throws UsageError naming `flag` when it is not
// a number in [low, high].
int64_t parse_count(const std::string& flag, const std::string& text, int64_t low, int64_t high);

// "24GiB", "512MB", "1.5G" (binary), "4096". Throws UsageError.
int64_t parse_bytes(const std::string& flag, const std::string& text);

// Lets an integer option accept the forms of parse_count within a range.
void accept_counts(CLI::Option* option, int64_t low, int64_t high);

}  // namespace cheetah
