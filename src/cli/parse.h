// SPDX-License-Identifier: MIT
#pragma once
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace cheetah {

// Parses the command line; the exit code when there is nothing to run (--help, --version, a mistake, which is
// explained on standard error with the nearest name).
std::optional<int> parse_command_line(CLI::App& app, int argc, char** argv);

// The candidate fewest edits away from `word`, or "" when none is near enough to be meant.
std::string nearest_name(const std::string& word, const std::vector<std::string>& candidates);

}  // namespace cheetah
