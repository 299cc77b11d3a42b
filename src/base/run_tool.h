// SPDX-License-Identifier: MIT
#pragma once
// Runs another program, with a deadline and a limit on what it may say.
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace cheetah {

struct ToolLimits {
  std::chrono::milliseconds time{1500};
  int64_t output_bytes = int64_t{1} << 20;
  bool with_errors = false;  // standard error too
};

struct ToolResult {
  bool started = false;   // false: no such program
  bool complete = false;  // the program ended by itself, within the limits
  int exit_code = -1;     // when complete
  std::string output;
};

// Looks the program up in PATH and runs it without input. Kills it past a limit and keeps its output so far.
ToolResult run_tool(std::vector<std::string> arguments, const ToolLimits& limits = {});

}  // namespace cheetah
