// cheetah lab list, cheetah lab run.
#include <CLI/CLI.hpp>

#include "cli/lab.h"
#include "cli/output.h"
#include "lab/report/text.h"
#include "lab/runner.h"

namespace cheetah {
namespace {

struct LabRunOptions {
  std::vector<std::string> ids = {"*"};
  lab::RunOptions run;
};

int run_list(const std::vector<std::string>& ids) {
  print(lab::list_text(lab::find_experiments(ids)));
  return 0;
}

int run_lab(const LabRunOptions& options) {
  const std::vector<const lab::Experiment*> chosen = lab::find_experiments(options.ids);
  lab::Machine machine;
  lab::Roofs roofs(machine);
  bool wrong = false;
  for (const lab::Experiment* experiment : chosen) {
    const lab::ExperimentResult result = lab::run_experiment(*experiment, machine, roofs, options.run);
    print(lab::result_text(result) + "\n");
    wrong |= result.has_wrong();
  }
  return wrong ? 1 : 0;
}

}  // namespace

void add_lab_run(CLI::App& lab_command, Action& action) {
  auto options = std::make_shared<LabRunOptions>();
  auto* list = lab_command.add_subcommand("list", "What can be run");
  list->add_option("ids", options->ids, "experiments, with * and ?: 'ch07/*'")->capture_default_str();
  list->callback([=, &action] { action = [=] { return run_list(options->ids); }; });
  auto* run = lab_command.add_subcommand("run", "Check, time and judge every variant of experiments");
  run->add_option("ids", options->ids, "experiments, with * and ?: 'ch07/*'")->required();
  run->add_flag("--quick", options->run.quick, "small sizes, few rounds");
  run->add_flag("--check-only", options->run.check_only, "correctness alone, no times");
  run->callback([=, &action] { action = [=] { return run_lab(*options); }; });
}

}  // namespace cheetah
