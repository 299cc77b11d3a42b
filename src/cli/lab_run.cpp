// SPDX-License-Identifier: MIT
// cheetah lab list, cheetah lab run.
#include <CLI/CLI.hpp>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/format.h"
#include "cli/json_file.h"
#include "cli/lab.h"
#include "cli/output.h"
#include "cli/signals.h"
#include "cli/version.h"
#include "lab/history.h"
#include "lab/report/html.h"
#include "lab/report/text.h"
#include "lab/result_json.h"

namespace cheetah {
namespace {

struct LabRunOptions {
  std::vector<std::string> ids = {"*"};
  lab::RunOptions run;
  std::string json, report;
  std::string history = default_lab_history();
  bool no_history = false;
};

int run_list(const std::vector<std::string>& ids, const std::string& json) {
  const auto found = lab::find_experiments(ids);
  JsonFile file(json);
  if (json != "-") print_report(lab::list_text(found));
  Json all = Json::array();
  for (const lab::Experiment* each : found) {
    Json variants = Json::array();
    for (const lab::Variant& variant : each->variants)
      variants.push_back({{"name", variant.name}, {"idea", variant.idea}});
    all.push_back({{"id", each->id}, {"title", each->title}, {"question", each->question},
        {"domain", lab::name_of(each->domain)}, {"variants", std::move(variants)}});
  }
  file.write(all);
  return 0;
}

void show_progress(size_t done, size_t total, const std::string& next) {
  show_status(done < total ? format("[{}/{}] {}", done + 1, total, next) : "");
}

int run_experiments(const LabRunOptions& options) {
  if (options.ids.empty())
    throw UsageError("name an experiment, e.g. 'cpu/*'; 'cheetah lab list' shows them all");
  const std::vector<const lab::Experiment*> chosen = lab::find_experiments(options.ids);
  JsonFile json(options.json);
  const AtomicFile report(options.report);
  const bool keeps = !options.no_history && !options.run.check_only;
  if (keeps && options.history.empty())
    throw UsageError("--history FILE is missing: HOME, where runs are kept, is not set (or --no-history)");
  std::unique_ptr<lab::History> history;  // opened first: a wrong path costs no time
  if (keeps) history = std::make_unique<lab::History>(options.history);
  const BuildInfo build = build_info();
  const InterruptScope interrupt;
  size_t done = 0;
  show_progress(0, chosen.size(), std::string(chosen.front()->id));
  const lab::LabRun run = lab::run_lab(chosen, options.run,
      {.commit = build.commit, .compiler = build.compiler, .cuda = build.cuda},
      [&](const lab::ExperimentResult& result) {
        ++done;
        show_progress(chosen.size(), chosen.size(), "");
        if (options.json != "-") print_report(lab::result_text(result) + "\n");
        if (done < chosen.size()) show_progress(done, chosen.size(), std::string(chosen[done]->id));
        return !interrupt.pending();
      });
  if (options.json != "-") print_report(lab::run_summary_text(run));
  json.write(lab::run_json(run));
  report.write(lab::report_html(run));
  if (history) {
    const int64_t id = history->add(run);
    print_note(format("kept as run {} in {}", id, options.history));
  }
  if (interrupt.pending()) {
    print_note(format("interrupted: {} of {} experiments were run", done, chosen.size()));
    return 130;
  }
  return run.has_wrong() ? 1 : 0;
}

}  // namespace

void add_lab_run(CLI::App& lab_command, Action& action) {
  auto options = std::make_shared<LabRunOptions>();
  auto* list = lab_command.add_subcommand("list", "What can be run");
  list->add_option("ids", options->ids, "experiments, with * and ?: 'ch07/*'")->capture_default_str();
  list->add_option("--json", options->json, "write the list to FILE; - prints it instead");
  list->footer("\nExamples:\n  cheetah lab list\n  cheetah lab list 'ch07/*' --json -\n");
  list->callback([=, &action] { action = [=] { return run_list(options->ids, options->json); }; });
  auto* run = lab_command.add_subcommand("run", "Check, time and judge every variant of experiments");
  auto asked = std::make_shared<LabRunOptions>();
  asked->ids.clear();
  run->add_option("ids", asked->ids, "experiments, with * and ?: 'cpu/*'; 'cheetah lab list' names them");
  run->add_flag("--quick", asked->run.quick, "small sizes, few rounds");
  run->add_flag("--check-only", asked->run.check_only, "correctness alone, no times");
  run->add_option("--seed", asked->run.seed, "of the inputs and of the variants' order")
      ->capture_default_str();
  run->add_option(
      "--json", asked->json, "write the results with their provenance to FILE; - prints them instead");
  run->add_option("--report", asked->report, "write a page with plots to FILE");
  run->add_option("--history", asked->history, "the SQLite file that keeps runs")->capture_default_str();
  run->add_flag("--no-history", asked->no_history, "do not keep this run");
  run->footer(
      "\nExamples:\n  cheetah lab run cpu/stream-triad\n  cheetah lab run 'ch07/*' --quick --json result.json --report "
      "report.html\n  cheetah lab run 'cpu/*' --check-only\n");
  run->callback([=, &action] { action = [=] { return run_experiments(*asked); }; });
}

}  // namespace cheetah
