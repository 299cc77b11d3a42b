// SPDX-License-Identifier: MIT
#include "cli/doctor_options.h"

#include <unistd.h>

#include <CLI/CLI.hpp>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/format.h"
#include "base/mapped_file.h"
#include "cli/bench_report.h"
#include "cli/output.h"
#include "cli/version.h"
#include "doctor/expected.h"
#include "doctor/history.h"
#include "doctor/probes.h"
#include "doctor/snapshot.h"

extern char** environ;

namespace cheetah {
namespace {

using namespace doctor;

constexpr std::chrono::milliseconds kCounterInterval{400};

std::string own_environment() {
  std::string text;
  for (char** variable = environ; *variable != nullptr; ++variable)
    if (std::string_view(*variable).find('\n') == std::string_view::npos)
      text += std::string(*variable) + "\n";
  return text;
}

std::string read_text(const std::string& path) {
  const MappedFile file = MappedFile::open(path);
  const auto bytes = file.bytes();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// A config file or program is named in this file system; the source sees it under its root.
std::string inside_root(std::string path) {
  while (!path.empty() && path.front() == '/') path.erase(path.begin());
  return path;
}

std::string absolute(const std::string& path) {
  if (path.empty() || path.front() == '/') return path;
  char here[4096];
  if (getcwd(here, sizeof here) == nullptr) throw Error("the current folder is gone: use full paths");
  return std::string(here) + "/" + path;
}

Intent intent_of(const DoctorOptions& options) {
  Intent intent = options.intent;
  intent.purpose = purpose_named(options.purpose);
  const bool live = options.root == "/";
  intent.data_path = live ? absolute(intent.data_path) : intent.data_path;
  intent.checkpoint_path = live ? absolute(intent.checkpoint_path) : intent.checkpoint_path;
  intent.binary = inside_root(live ? absolute(intent.binary) : intent.binary);
  intent.config = inside_root(live ? absolute(intent.config) : intent.config);
  return intent;
}

}  // namespace

void add_source_options(CLI::App& command, DoctorOptions& options) {
  command
      .add_option("--root", options.root, "examine the machine whose files lie in DIR: proc/, sys/, etc/ …")
      ->capture_default_str();
  command.add_option("--from", options.from, "examine a snapshot that --save wrote");
  command.add_option("--purpose", options.purpose, "what the machine is for: serve, train, bench")
      ->check(CLI::IsMember({"serve", "train", "bench"}))
      ->capture_default_str();
  command.add_flag("--multi-node", options.intent.multi_node, "the job spans machines: network checks count");
  command.add_option("--pid", options.intent.pid, "examine this process as the job")
      ->check(CLI::TypeValidator<uint64_t>("PID"));
  command.add_option("--data", options.intent.data_path, "the folder of the data set");
  command.add_option("--checkpoints", options.intent.checkpoint_path, "the folder of the checkpoints");
  command.add_option("--binary", options.intent.binary, "a program whose GPU code must fit this GPU");
  command.add_option("--config", options.intent.config, "settings of an engine or trainer (YAML or JSON)");
  command.add_option("--nvml", options.nvml, "the NVML library to load")->capture_default_str();
}

void add_output_options(CLI::App& command, DoctorOptions& options) {
  auto* json = command.add_flag("--json", options.json, "print JSON");
  auto* markdown = command.add_flag("--markdown", options.markdown, "print a Markdown table")->excludes(json);
  command.add_flag("--sarif", options.sarif, "print SARIF 2.1.0")->excludes(json)->excludes(markdown);
  command.add_option("--html", options.html, "write the report as a page to FILE");
  command.add_flag(
      "-v,--verbose", options.verbose, "show passed and not applicable checks, with the reasons");
  command.add_option("--fail-on", options.fail_on, "exit with 1 when something is as bad: fail, warn, never")
      ->check(CLI::IsMember({"fail", "warn", "never"}))
      ->capture_default_str();
  command.add_option("--only", options.only, "run these checks alone")->delimiter(',');
  command.add_option("--waive", options.waived, "leave these checks out")->delimiter(',');
}

namespace {

// A snapshot keeps what the machine was for; what is asked for now counts more.
Intent intent_over(const DoctorOptions& options, Intent kept) {
  if (options.purpose != "serve") kept.purpose = purpose_named(options.purpose);
  kept.multi_node = kept.multi_node || options.intent.multi_node;
  return kept;
}

void add_site_facts(Facts& facts, const DoctorOptions& options) {
  if (!options.expect.empty()) facts.expected = parse_expected(read_text(options.expect), options.expect);
  if (!options.history.empty()) {
    read_text(options.history);  // a file that is not there is an error, not an empty history
    facts.trends = History(options.history).trends(host_name(options), 0);
  }
}

}  // namespace

Collected collect_facts(const DoctorOptions& options) {
  if (!options.from.empty()) {
    const Snapshot snapshot = parse_snapshot(read_text(options.from), options.from);
    Collected again = collect(snapshot.source, intent_over(options, snapshot.intent));
    add_site_facts(again.facts, options);
    return again;
  }
  const bool live = options.root == "/";
  const ProbeOptions probes{.nvml_library = options.nvml, .environment = own_environment()};
  const auto source = std::make_shared<FolderSource>(options.root, live ? live_probes(probes) : Probes{});
  CollectOptions limits;
  if (live) limits.counter_interval = kCounterInterval;
  Collected all = collect(source, intent_of(options), limits);
  add_site_facts(all.facts, options);
  if (!options.save.empty()) {
    AtomicFile(options.save).write(snapshot_json(all.snapshot, all.facts.intent));
  }
  return all;
}

std::string subject_of(const Facts& facts, const DoctorOptions& options) {
  std::string subject = !options.from.empty() ? options.from
                        : options.root == "/" ? "this machine"
                                              : options.root;
  if (facts.cpu.online) subject += format(", {} CPUs", facts.cpu.online->size());
  if (facts.cpu.num_nodes() > 1) subject += format(" on {} NUMA nodes", facts.cpu.num_nodes());
  if (facts.gpu.count() > 0)
    subject += format(", {} x {}", facts.gpu.count(), facts.gpu.gpus->front().name());
  if (facts.container.runtime) subject += format(", in {}", *facts.container.runtime);
  return subject + format(", to {}", name_of(facts.intent.purpose));
}

int print_report(const Report& report, const DoctorOptions& options) {
  if (!options.html.empty()) AtomicFile(options.html).write(report_html(report, utc_now()));
  if (options.json)
    print(report_json(report));
  else if (options.sarif)
    print(report_sarif(report, build_info().version));
  else if (options.markdown)
    print(report_markdown(report));
  else
    print_report(
        report_text(report, {.verbose = options.verbose, .colour = styled("x", Style::kBold) != "x"}));
  const bool failed = report.count(Status::kFail) > 0, warned = report.count(Status::kWarn) > 0;
  if (options.fail_on == "fail") return failed ? 1 : 0;
  return options.fail_on == "warn" && (failed || warned) ? 1 : 0;
}

}  // namespace cheetah
