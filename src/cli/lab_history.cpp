// SPDX-License-Identifier: MIT
// cheetah lab show, history, compare, report: what earlier runs found.
#include <CLI/CLI.hpp>
#include <charconv>
#include <filesystem>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/format.h"
#include "base/table.h"
#include "cli/json_file.h"
#include "cli/lab.h"
#include "cli/output.h"
#include "lab/compare.h"
#include "lab/history.h"
#include "lab/report/html.h"
#include "lab/report/text.h"
#include "lab/result_json.h"

namespace cheetah {
namespace {

struct LabHistoryOptions {
  std::string history = default_lab_history();
  std::string run = "last";
  std::vector<std::string> ids = {"*"};
  std::string before, after, threshold, output, json;
  int64_t most = 20;
};

// The kept runs, to read: what is not there yet is not made.
lab::History open_kept(const std::string& path) {
  if (path.empty()) throw UsageError("--history FILE is missing: HOME, where runs are kept, is not set");
  return lab::History(path, lab::History::Mode::kRead);
}

// A run by number, "last", or a file that --json wrote.
lab::LabRun load_run(const std::string& name, const std::string& history_path) {
  int64_t id = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), id);
  const bool is_number = error == std::errc() && end == name.data() + name.size();
  if (!is_number && name != "last") return lab::run_from_json(read_json_file(name), name);
  const lab::History history = open_kept(history_path);
  if (name == "last") {
    const std::optional<int64_t> newest = history.newest();
    if (!newest) throw Error(format("{}: no run is kept yet; 'cheetah lab run' makes one", history_path));
    id = *newest;
  }
  return history.run(id);
}

std::vector<lab::LabRun> load_side(const std::string& names, const std::string& history_path) {
  std::vector<lab::LabRun> runs;
  for (size_t begin = 0; begin <= names.size();) {
    const size_t end = std::min(names.find(',', begin), names.size());
    runs.push_back(load_run(names.substr(begin, end - begin), history_path));
    begin = end + 1;
  }
  return runs;
}

int run_show(const LabHistoryOptions& options) {
  lab::LabRun run = load_run(options.run, options.history);
  std::erase_if(run.experiments, [&](const lab::ExperimentResult& e) {
    return std::ranges::none_of(
        options.ids, [&](const std::string& id) { return lab::matches_glob(id, e.id); });
  });
  if (run.experiments.empty()) throw UsageError("no experiment of that run matches");
  for (const lab::ExperimentResult& result : run.experiments)
    print_report(lab::explained_text(result) + "\n");
  print_report(lab::run_summary_text(run));
  return 0;
}

int run_history(const LabHistoryOptions& options) {
  const lab::History history = open_kept(options.history);
  if (options.ids.size() == 1 && options.ids.front() != "*") {
    const std::optional<int64_t> newest = history.newest();
    if (!newest) throw Error(format("{}: no run is kept yet", options.history));
    const auto points = history.times(options.ids.front(), history.run(*newest).provenance.hardware);
    Table table({"size", "variant", "run", "time", "commit", "median", "speed-up", "verdict"});
    for (const lab::TimePoint& p : points)
      table.add({p.size, p.variant, format("{}", p.run_id), p.time, p.commit, lab::human_time(p.median_s),
          format("{:.2f}x", p.speedup), p.verdict});
    print(table.render());
    return 0;
  }
  Table table({"run", "time", "commit", "experiments", "wrong", "hardware"});
  for (const lab::RunEntry& entry : history.runs(options.most))
    table.add({format("{}", entry.id), entry.time, entry.commit, format("{}", entry.num_experiments),
        format("{}", entry.num_wrong), entry.hardware});
  print(table.render());
  return 0;
}

int run_compare(const LabHistoryOptions& options) {
  constexpr double kShown = 0.02;  // without a gate, changes worth a line
  const double threshold = options.threshold.empty() ? kShown : lab::parse_threshold(options.threshold);
  const std::vector<lab::LabRun> before = load_side(options.before, options.history);
  const std::vector<lab::LabRun> after = load_side(options.after, options.history);
  const lab::Comparison comparison = lab::compare_runs(before, after, threshold);
  print_report(lab::comparison_text(comparison));
  return !options.threshold.empty() && comparison.has_regression() ? 1 : 0;
}

int run_report(const LabHistoryOptions& options) {
  const lab::LabRun run = load_run(options.run, options.history);
  AtomicFile(options.output).write(lab::report_html(run));
  print_note(format("wrote {}", options.output));
  return 0;
}

}  // namespace

void add_lab_history(CLI::App& lab_command, Action& action) {
  auto options = std::make_shared<LabHistoryOptions>();
  const auto add = [&](const char* name, const char* help, int (*work)(const LabHistoryOptions&)) {
    auto* command = lab_command.add_subcommand(name, help);
    command->add_option("--history", options->history, "the SQLite file that keeps runs")
        ->capture_default_str();
    command->callback([=, &action] { action = [=] { return work(*options); }; });
    return command;
  };
  constexpr const char* kRunHelp = "a run's number, 'last', or a file that --json wrote";
  auto* show = add("show", "Results of a run, with mechanism and claim", run_show);
  show->add_option("ids", options->ids, "experiments, with * and ?");
  show->add_option("--run", options->run, kRunHelp)->capture_default_str();
  show->footer("\nExamples:\n  cheetah lab show cpu/stream-triad\n  cheetah lab show 'ch07/*' --run 12\n");
  auto* history = add("history", "The runs that were kept, or one experiment over them", run_history);
  history->add_option("id", options->ids, "an experiment: how it did, run by run")->expected(0, 1);
  history->add_option("--limit,--most", options->most, "runs to list")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  history->footer("\nExamples:\n  cheetah lab history --limit 5\n  cheetah lab history cpu/stream-triad\n");
  auto* compare = add("compare", "What became faster or slower between runs of one machine", run_compare);
  compare->add_option("before", options->before, "runs before: numbers or files, separated by commas")
      ->required();
  compare->add_option("after", options->after, "runs after; a change counts when all of them show it")
      ->required();
  compare->add_option(
      "--fail-on", options->threshold, "exit 1 when something is slower by this much, e.g. 5%");
  compare->footer(
      "\nExamples:\n  cheetah lab compare 12 13,14 --fail-on 5%\n  cheetah lab compare old.json last\n");
  auto* report = add("report", "A page with plots of a run", run_report);
  report->add_option("run", options->run, kRunHelp)->capture_default_str();
  report->add_option("-o,--output", options->output, "the file to write")->required();
  report->footer(
      "\nExamples:\n  cheetah lab report -o report.html\n  cheetah lab report 12 -o report.html\n");
}

}  // namespace cheetah
