// SPDX-License-Identifier: MIT
// cheetah doctor: what costs performance on this machine, why, and the command that mends it. Changes
// nothing without --fix.
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
  cheetah doctor --html node7.html
  cheetah doctor fix-plan > plan.sh      cheetah doctor explain GPU-12
  cheetah doctor --fix --only HST-12     cheetah doctor --undo
  cheetah doctor engine http://127.0.0.1:8000 --slo-ttft 500
  cheetah doctor measure                 cheetah doctor checklist
  cheetah doctor baseline > site.yaml    cheetah doctor --expect site.yaml
  cheetah doctor test --seconds 60       cheetah doctor watch --interval 300
  cheetah doctor --history doctor-history.db
)";

void check_ids(const DoctorOptions& options) {
  for (const auto* ids : {&options.only, &options.waived})
    for (const std::string& id : *ids)
      if (find_check(id) == nullptr)
        throw UsageError(format("'{}' is not a check; 'cheetah doctor explain' lists them", printable(id)));
}

const std::vector<Layer> kMachineLayers = {Layer::kHost, Layer::kGpu, Layer::kNetwork, Layer::kStorage,
    Layer::kContainer, Layer::kJob, Layer::kConfiguration};

Report examine_machine(const DoctorOptions& options) {
  check_ids(options);
  return examine_facts(collect_facts(options), options);
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
      throw UsageError(format("'{}' is not a check; 'cheetah doctor explain' lists them", printable(id)));
    print_report(explanation(*check));
  }
  return 0;
}

void add_explain(CLI::App& doctor, Action& action) {
  auto* command =
      doctor.add_subcommand("explain", "What a check looks at, and why; without an id, the list of checks");
  auto ids = std::make_shared<std::vector<std::string>>();
  command->add_option("ids", *ids, "checks, e.g. GPU-12");
  command->footer("\nExamples:\n  cheetah doctor explain\n  cheetah doctor explain GPU-12 HST-19\n");
  command->callback([=, &action] { action = [=] { return run_explain(*ids); }; });
}

void add_fix_plan(CLI::App& doctor, Action& action) {
  auto* command =
      doctor.add_subcommand("fix-plan", "Print a shell script that fixes, and undoes; nothing is applied");
  auto options = std::make_shared<DoctorOptions>();
  add_source_options(*command, *options);
  command->add_option("--waive", options->waived, "leave these checks out, separated by commas")
      ->delimiter(',');
  command->footer(
      "\nExamples:\n  cheetah doctor fix-plan > plan.sh\n  cheetah doctor fix-plan --from node7.json --waive HST-19\n");
  command->callback([=, &action] {
    action = [=] {
      print(fix_plan(examine_machine(*options)));
      return 0;
    };
  });
}

void add_fix_options(CLI::App& command, DoctorOptions& options) {
  auto* fix = command.add_flag(
      "--fix", options.fix, "apply the fixes that are commands, asking before each step; see also --only");
  fix->excludes(command.get_option("--from"));
  auto* undo = command.add_flag("--undo", options.undo, "put back all that --fix changed, the latest first");
  undo->excludes(fix);
  command.add_flag("--lasting", options.lasting, "with --fix: also the steps that outlast a reboot")
      ->needs(fix);
  command.add_flag("-y,--yes", options.yes, "with --fix and --undo: do not ask");
  command.add_option("--journal", options.journal,
      "where --fix notes how to undo (default: /var/lib/cheetah/doctor-undo.jsonl below the root)");
}

int examine_and_act(const DoctorOptions& options) {
  if (options.yes && !options.fix) throw UsageError("--yes needs --fix or --undo: a report asks nothing");
  const Report report = examine_machine(options);
  return options.fix ? run_fix(report, options) : print_report(report, options);
}

}  // namespace

Report examine_facts(const Collected& all, const DoctorOptions& options) {
  Report report = examine(all.facts,
      {.layers = kMachineLayers, .only = options.only, .waived = options.waived, .read = &all.snapshot});
  report.subject = subject_of(all.facts, options);
  return report;
}

void add_doctor(CLI::App& root, Action& action) {
  auto* command =
      root.add_subcommand("doctor", "Find what costs performance on this machine, and how to fix it");
  auto options = std::make_shared<DoctorOptions>();
  add_source_options(*command, *options);
  add_output_options(*command, *options);
  command->add_option("--save", options->save, "write all that was read to FILE, to examine it elsewhere");
  command->add_option("--expect", options->expect, "compare with a site's profile: see doctor baseline");
  command->add_option("--history", options->history, "count rates over a file of doctor watch");
  add_fix_options(*command, *options);
  command->require_subcommand(0, 1);
  add_explain(*command, action);
  add_fix_plan(*command, action);
  add_doctor_watch(*command, action);
  add_doctor_baseline(*command, action);
  add_doctor_test(*command, action);
  add_doctor_inputs(*command, action);
  command->footer(kExamples);
  command->callback([=, &action] {
    if (!command->get_subcommands().empty()) return;
    action = [=] { return options->undo ? run_undo(*options) : examine_and_act(*options); };
  });
}

}  // namespace cheetah
