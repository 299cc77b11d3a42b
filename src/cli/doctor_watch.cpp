// SPDX-License-Identifier: MIT
// cheetah doctor watch and baseline: a machine over days, and beside what its site expects.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <ctime>
#include <thread>

#include "base/error.h"
#include "base/format.h"
#include "cli/command.h"
#include "cli/doctor_options.h"
#include "cli/output.h"
#include "doctor/expected.h"
#include "doctor/history.h"
#include "doctor/measure/active.h"

namespace cheetah {
namespace {

using namespace doctor;

struct WatchInput {
  std::string file = "doctor-history.db";
  double interval_s = 60;
  int count = 0;  // 0: until it is stopped
  double keep_days = 90;
  bool rates = false;
};

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string clock_text(double time_s) {
  const auto time = static_cast<std::time_t>(time_s);
  std::tm parts{};
  gmtime_r(&time, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

void print_rates(const History& history, const std::string& host) {
  int growing = 0;
  for (const Trend& trend : history.trends(host, 0)) {
    if (trend.added <= 0) continue;
    ++growing;
    print(format("  {:<48} {:>10.0f} in {:>7.2f} h  {:>10.3g} per day\n", printable(trend.name, 48),
        trend.added, trend.hours, trend.per_day()));
  }
  if (growing == 0) print("  no error counter has grown\n");
}

int run_watch(const DoctorOptions& options, const WatchInput& input) {
  History history(input.file);
  const std::string host = host_name(options);
  if (input.rates) {
    print(format("{}: error counters in {}\n", host, input.file));
    print_rates(history, host);
    return 0;
  }
  for (int look = 0; input.count == 0 || look < input.count; ++look) {
    if (look > 0) std::this_thread::sleep_for(std::chrono::duration<double>(input.interval_s));
    const Collected all = collect_facts(options);
    const Report report = examine_facts(all, options);
    const double now = seconds_now();
    const auto changes = history.add(host, now, error_counters(all.facts), report);
    history.forget_before(now - input.keep_days * 86400);
    if (look == 0)
      print(format("{} {}: goodput at risk {:.0f} %\n", clock_text(now), host, 100 * report.goodput_at_risk));
    for (const FindingChange& change : changes)
      print(format(
          "{} {} {} {}\n", clock_text(now), change.is_new ? "came" : "went", change.check, change.found));
  }
  return 0;
}

struct TestInput {
  ActiveOptions tests;
  bool no_disk = false;
  std::string history;
};

int run_test(const DoctorOptions& options, TestInput input) {
  Facts facts = collect_facts(options).facts;
  input.tests.measure.nvml_library = options.nvml;
  input.tests.disk = !input.no_disk;
  facts.measured = parse_measured(
      run_active_tests(input.tests, [](const std::string& what) { print_note("testing " + what); }));
  const std::string host = host_name(options);
  if (!input.history.empty()) {
    History history(input.history);
    facts.measured_before = history.usual(host);
    history.add_measured(host, seconds_now(), *facts.measured);
  }
  if (!options.json && !options.sarif && !options.markdown) print(results_table(*facts.measured) + "\n");
  Report report =
      examine(facts, {.layers = {Layer::kMeasured}, .only = options.only, .waived = options.waived});
  report.subject = subject_of(facts, options);
  return print_report(report, options);
}

}  // namespace

void add_doctor_test(CLI::App& parent, Action& action) {
  auto* command = parent.add_subcommand(
      "test", "Load the GPUs, check what they compute, measure their links and the disk: a minute or longer");
  auto options = std::make_shared<DoctorOptions>();
  auto input = std::make_shared<TestInput>();
  command->add_option("--seconds", input->tests.seconds, "for memory and compute together, all GPUs at once")
      ->check(CLI::Range(1.0, 86400.0))
      ->capture_default_str();
  command
      ->add_option(
          "--folder", input->tests.measure.folder, "where the disk is tested; the file there is removed")
      ->capture_default_str();
  command->add_flag("--no-disk", input->no_disk, "leave the disk alone");
  command->add_option("--history", input->history, "a SQLite file of results: compare with them, add these");
  command->add_option("--nvml", options->nvml, "the NVML library to load")->capture_default_str();
  add_output_options(*command, *options);
  command->footer(
      "\nExamples:\n  cheetah doctor test --seconds 60\n  cheetah doctor test --seconds 900 --history history.db "
      "--fail-on fail\n");
  command->callback([=, &action] { action = [=] { return run_test(*options, *input); }; });
}

std::string host_name(const DoctorOptions& options) {
  if (!options.from.empty()) return options.from.substr(options.from.rfind('/') + 1);
  if (options.root != "/") return options.root;
  char name[256] = {};
  if (gethostname(name, sizeof name - 1) != 0 || name[0] == '\0') return "this machine";
  return printable(name, 200);
}

void add_doctor_watch(CLI::App& parent, Action& action) {
  auto* command = parent.add_subcommand(
      "watch", "Look again and again, keep error counters and findings in a file, print what changes");
  auto options = std::make_shared<DoctorOptions>();
  auto input = std::make_shared<WatchInput>();
  add_source_options(*command, *options);
  command->add_option("--history", input->file, "the SQLite file that is kept")->capture_default_str();
  command->add_option("--interval", input->interval_s, "seconds between two looks")
      ->check(CLI::Range(0.1, 86400.0))
      ->capture_default_str();
  command->add_option("--count", input->count, "looks to take; 0: until stopped")
      ->check(CLI::Range(0, 1000000))
      ->capture_default_str();
  command->add_option("--keep-days", input->keep_days, "days after which looks are forgotten")
      ->check(CLI::Range(0.01, 36500.0))
      ->capture_default_str();
  command->add_flag("--rates", input->rates, "print how fast each error counter grew, and end");
  command->footer(
      "\nExamples:\n  cheetah doctor watch --interval 300 --history /var/lib/cheetah/history.db\n"
      "  cheetah doctor watch --rates\n  cheetah doctor --history doctor-history.db\n");
  command->callback([=, &action] { action = [=] { return run_watch(*options, *input); }; });
}

void add_doctor_baseline(CLI::App& parent, Action& action) {
  auto* command = parent.add_subcommand(
      "baseline", "Print what this host has, as the profile that --expect compares others with");
  auto options = std::make_shared<DoctorOptions>();
  add_source_options(*command, *options);
  command->footer(
      "\nExamples:\n  cheetah doctor baseline > site.yaml\n  cheetah doctor --expect site.yaml --fail-on fail\n");
  command->callback([=, &action] {
    action = [=] {
      print(baseline_text(collect_facts(*options).facts, host_name(*options)));
      return 0;
    };
  });
}

}  // namespace cheetah
