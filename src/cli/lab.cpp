// cheetah lab: measure optimisations, each against its baseline, its oracle and the machine's limits.
#include "cli/lab.h"

#include <CLI/CLI.hpp>

#include "cli/lab_analysis.h"

namespace cheetah {

void add_lab(CLI::App& root, Action& action) {
  auto* command =
      root.add_subcommand("lab", "Measure optimisations against their baseline and the machine's limits");
  command->require_subcommand(1);
  add_lab_run(*command, action);
  add_lab_occupancy(*command, action);
  add_lab_access(*command, action);
  add_lab_diagnose(*command, action);
  add_lab_sass(*command, action);
  add_lab_roofline(*command, action);
}

}  // namespace cheetah
