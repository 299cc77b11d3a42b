// cheetah doctor: what costs performance on this machine, why, and the command that mends it. Changes
// nothing.
#include <CLI/CLI.hpp>

#include "base/error.h"
#include "base/format.h"
#include "cli/command.h"
#include "cli/doctor_options.h"
#include "cli/output.h"

namespace cheetah {
namespace {

using namespace doctor;

constexpr const char* kExamples = R"(
Examples:
  cheetah doctor
  cheetah doctor --purpose train --multi-node --data /data --checkpoints /ckpt
  cheetah doctor --pid 4242 --json --fail-on fail
  cheetah doctor --save node7.json       cheetah doctor --from node7.json
  cheetah doctor fix-plan > plan.sh      cheetah doctor explain GPU-12
  cheetah doctor engine http://127.0.0.1:8000 --slo-ttft 500
  cheetah doctor measure                 cheetah doctor checklist
)";

const std::vector<Layer> kMachineLayers = {Layer::kHost,         Layer::kGpu,       Layer::kNetwork,
                                           Layer::kStorage,      Layer::kContainer, Layer::kJob,
                                           Layer::kConfiguration};

Report examine_machine(const DoctorOptions& options) {
  for (const auto* ids : {&options.only, &options.waived})
    for (const std::string& id : *ids)
      if (find_check(id) == nullptr)
        throw UsageError(format("'{}' is no check; 'cheetah doctor explain' lists them", printable(id)));
  const Collected all = collect_facts(options);
  Report report =
      examine(all.facts, {.layers = kMachineLayers, .only = options.only, .waived = options.waived});
  report.subject = subject_of(all.facts, options);
  return report;
}

std::string explanation(const Check& check) {
  std::string text = format("{}  {}  ({})\n", check.id, check.title, name_of(check.layer));
  text += format(
      "  why        {}\n  effect     {}\n  at risk    about {:.0f} % of goodput in a typical case (our "
      "estimate)\n",
      check.why, check.effect, 100 * check.risk);
  text += format("  fix        {}\n", check.fix);
  if (!check.undo.empty()) text += format("  undo       {}\n", check.undo);
  return text + format("  checklist  {}\n", check.items);
}

int run_explain(const std::vector<std::string>& ids) {
  if (ids.empty()) {
    for (const Check* check : all_checks()) print(format("{}  {}\n", check->id, check->title));
    return 0;
  }
  for (const std::string& id : ids) {
    const Check* check = find_check(id);
    if (check == nullptr)
      throw UsageError(format("'{}' is no check; 'cheetah doctor explain' lists them", printable(id)));
    print(explanation(*check));
  }
  return 0;
}

void add_explain(CLI::App& doctor, Action& action) {
  auto* command =
      doctor.add_subcommand("explain", "What a check looks at, and why; without an id, the list of checks");
  auto ids = std::make_shared<std::vector<std::string>>();
  command->add_option("ids", *ids, "checks, e.g. GPU-12");
  command->callback([=, &action] { action = [=] { return run_explain(*ids); }; });
}

void add_fix_plan(CLI::App& doctor, Action& action) {
  auto* command =
      doctor.add_subcommand("fix-plan", "Print a shell script that mends, and undoes; nothing is applied");
  auto options = std::make_shared<DoctorOptions>();
  add_source_options(*command, *options);
  command->add_option("--waive", options->waived, "leave these checks out")->delimiter(',');
  command->callback([=, &action] {
    action = [=] {
      print(fix_plan(examine_machine(*options)));
      return 0;
    };
  });
}

}  // namespace

void add_doctor(CLI::App& root, Action& action) {
  auto* command =
      root.add_subcommand("doctor", "Find what costs performance on this machine, and how to mend it");
  auto options = std::make_shared<DoctorOptions>();
  add_source_options(*command, *options);
  add_output_options(*command, *options);
  command->add_option("--save", options->save, "write all that was read to FILE, to examine it elsewhere");
  command->require_subcommand(0, 1);
  command->footer(kExamples);
  add_explain(*command, action);
  add_fix_plan(*command, action);
  add_doctor_inputs(*command, action);
  command->callback([=, &action] {
    if (!command->get_subcommands().empty()) return;
    action = [=] { return print_report(examine_machine(*options), *options); };
  });
}

}  // namespace cheetah
