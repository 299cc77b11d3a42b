// SPDX-License-Identifier: MIT
// cheetah lab: measure optimisations, each against its baseline, its oracle and the machine's limits.
#include "cli/lab.h"

#include <CLI/CLI.hpp>
#include <cstdlib>

#include "cli/lab_analysis.h"

namespace cheetah {
namespace {

constexpr const char* kExamples = R"(
Examples:
  cheetah lab list 'cpu/*'
  cheetah lab run cpu/stream-triad
  cheetah lab run 'ch07/*' --quick --json result.json --report report.html
  cheetah lab show cpu/stream-triad
  cheetah lab history                cheetah lab compare 12 13,14 --fail-on 5%
)";

}  // namespace

std::string default_lab_history() {
  const char* data = std::getenv("XDG_DATA_HOME");
  if (data != nullptr && *data != '\0') return std::string(data) + "/cheetah/lab.sqlite";
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home == '\0') return "";
  return std::string(home) + "/.local/share/cheetah/lab.sqlite";
}

void add_lab(CLI::App& root, Action& action) {
  auto* command =
      root.add_subcommand("lab", "Measure optimisations against their baseline and the machine's limits");
  command->require_subcommand(1);
  add_lab_run(*command, action);
  add_lab_history(*command, action);
  add_lab_occupancy(*command, action);
  add_lab_access(*command, action);
  add_lab_diagnose(*command, action);
  add_lab_sass(*command, action);
  add_lab_roofline(*command, action);
  command->footer(kExamples);
}

}  // namespace cheetah
