// SPDX-License-Identifier: MIT
// cheetah doctor pod, engine, profile, measure, diff and checklist: what is not this machine's own files.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <thread>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/format.h"
#include "base/mapped_file.h"
#include "cli/command.h"
#include "cli/doctor_options.h"
#include "cli/output.h"
#include "doctor/checklist.h"
#include "doctor/diff.h"
#include "doctor/measure.h"
#include "doctor/snapshot.h"
#include "net/http_get.h"

namespace cheetah {
namespace {

using namespace doctor;

std::string read_text(const std::string& path) {
  const MappedFile file = MappedFile::open(path);
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

int report_on(const Facts& facts, Layer layer, const std::string& subject, const DoctorOptions& options) {
  Report report = examine(facts, {.layers = {layer}, .only = options.only, .waived = options.waived});
  report.subject = subject;
  return print_report(report, options);
}

void add_pod(CLI::App& parent, Action& action) {
  auto* command = parent.add_subcommand("pod", "Examine Kubernetes objects before they are applied");
  auto options = std::make_shared<DoctorOptions>();
  auto file = std::make_shared<std::string>();
  command->add_option("FILE", *file, "YAML or JSON with pods, deployments, jobs, autoscalers")->required();
  command->add_flag("--multi-node", options->intent.multi_node, "the job spans machines: the network counts");
  add_output_options(*command, *options);
  command->footer("\nExamples:\n  cheetah doctor pod deployment.yaml --fail-on warn\n");
  command->callback([=, &action] {
    action = [=] {
      Facts facts;
      facts.intent = options->intent;
      facts.pod = read_pods(read_text(*file), *file);
      return report_on(facts, Layer::kPod, format("{}, {} pods", *file, facts.pod->pods.size()), *options);
    };
  });
}

struct EngineInput {
  std::vector<std::string> places;
  double interval_s = 5, slo_ttft_ms = 0, slo_itl_ms = 0;
  ClientTls tls;
};

bool is_url(const std::string& place) {
  return place.starts_with("http://") || place.starts_with("https://");
}

std::string read_place(const std::string& place, const ClientTls& tls) {
  if (!is_url(place)) return read_text(place);
  const Url url =
      parse_url(place, {.name = "--engine", .example = "http://127.0.0.1:8000/metrics", .path = "/metrics"});
  return http_get(url, std::chrono::seconds(5), size_t{32} << 20, tls);
}

EngineFacts read_engine(const EngineInput& input) {
  const std::string& last = input.places.back();
  const auto read = [&](const std::string& place) {
    Metrics metrics = Metrics::parse(read_place(place, input.tls));
    if (metrics.empty()) throw Error(format("{}: no metrics in it: expected Prometheus text", place));
    return metrics;
  };
  EngineFacts facts{.now = {},
      .before = {},
      .interval_s = 0,
      .source = last,
      .slo_ttft_s = input.slo_ttft_ms / 1000,
      .slo_itl_s = input.slo_itl_ms / 1000};
  if (input.places.size() > 1 || (is_url(last) && input.interval_s > 0)) {
    facts.before = read(input.places.front());
    if (is_url(last)) std::this_thread::sleep_for(std::chrono::duration<double>(input.interval_s));
    facts.interval_s = input.interval_s;
  }
  facts.now = read(last);
  return facts;
}

void add_engine(CLI::App& parent, Action& action) {
  auto* command = parent.add_subcommand("engine", "Examine a running engine by its metrics");
  auto options = std::make_shared<DoctorOptions>();
  auto input = std::make_shared<EngineInput>();
  command
      ->add_option("URL|FILE", input->places,
          "http://HOST:PORT[/metrics], or one or two saved scrapes, the older first")
      ->required()
      ->expected(1, 2);
  command
      ->add_option("--interval", input->interval_s, "seconds between the two readings; 0 reads a server once")
      ->check(CLI::Range(0.0, 300.0))
      ->capture_default_str();
  command->add_option("--slo-ttft", input->slo_ttft_ms, "objective for the first token, p95, in ms")
      ->check(CLI::Range(0.0, 1e9));
  command->add_option("--slo-itl", input->slo_itl_ms, "objective between tokens, p99, in ms")
      ->check(CLI::Range(0.0, 1e9));
  auto* authority =
      command->add_option("--ca-file", input->tls.ca_file, "of https: the authority's certificate (PEM)");
  command->add_flag("--insecure", input->tls.accept_any_certificate, "of https: accept any certificate")
      ->excludes(authority);
  add_output_options(*command, *options);
  command->footer(
      "\nExamples:\n  cheetah doctor engine http://127.0.0.1:8000 --slo-ttft 500 --slo-itl 50\n  cheetah "
      "doctor engine before.txt after.txt --interval 60\n");
  command->callback([=, &action] {
    action = [=] {
      Facts facts;
      facts.engine = read_engine(*input);
      return report_on(facts, Layer::kEngine, input->places.back(), *options);
    };
  });
}

void add_profile(CLI::App& parent, Action& action) {
  auto* command = parent.add_subcommand("profile", "Examine a trace, kernel counters or a log");
  auto options = std::make_shared<DoctorOptions>();
  auto file = std::make_shared<std::string>();
  command
      ->add_option("FILE", *file,
          "Chrome or Kineto JSON, Nsight Systems SQLite, Nsight Compute CSV, NCCL log, ptxas -v")
      ->required();
  add_output_options(*command, *options);
  command->footer(
      "\nExamples:\n  cheetah doctor profile trace.json\n  nsys export --type sqlite run.nsys-rep && cheetah "
      "doctor profile run.sqlite\n");
  command->callback([=, &action] {
    action = [=] {
      Facts facts;
      facts.profile = read_profile(*file);
      return report_on(facts, Layer::kProfile, *file, *options);
    };
  });
}

void add_measure(CLI::App& parent, Action& action) {
  auto* command = parent.add_subcommand("measure", "Measure memory, cores, disk, loopback and GPUs, briefly");
  auto options = std::make_shared<DoctorOptions>();
  auto limits = std::make_shared<MeasureOptions>();
  auto no_gpu = std::make_shared<bool>(false);
  command->add_option("--folder", limits->folder, "where the disk is measured; the file there is removed")
      ->capture_default_str();
  command->add_flag("--no-gpu", *no_gpu, "leave the GPUs alone");
  command->add_option("--nvml", options->nvml, "the NVML library to load")->capture_default_str();
  add_output_options(*command, *options);
  command->footer("\nExamples:\n  cheetah doctor measure --folder /data\n");
  command->callback([=, &action] {
    action = [=] {
      Facts facts = collect_facts(*options).facts;
      limits->gpu = !*no_gpu;
      limits->nvml_library = options->nvml;
      const std::string text =
          measure_all(facts.cpu, *limits, [](const std::string& what) { print_note("measuring " + what); });
      facts.measured = parse_measured(text);
      if (!options->json && !options->sarif && !options->markdown)
        print(results_table(*facts.measured) + "\n");
      return report_on(facts, Layer::kMeasured, subject_of(facts, *options), *options);
    };
  });
}

int run_diff(const std::vector<std::string>& files) {
  std::vector<HostFactsOf> hosts;
  for (const std::string& file : files) {
    const Snapshot snapshot = parse_snapshot(read_text(file), file);
    hosts.push_back({file.substr(file.rfind('/') + 1), collect(snapshot.source, snapshot.intent).facts});
  }
  const auto found = differences(hosts);
  print(difference_table(hosts, found));
  return std::any_of(found.begin(), found.end(), [](const Difference& one) { return one.matters; }) ? 1 : 0;
}

void add_diff(CLI::App& parent, Action& action) {
  auto* command =
      parent.add_subcommand("diff", "Compare snapshots of hosts: versions and settings that drifted apart");
  auto files = std::make_shared<std::vector<std::string>>();
  command->add_option("SNAPSHOT", *files, "two or more files of cheetah doctor --save")
      ->required()
      ->expected(2, 256);
  command->footer(
      "\nExamples:\n  cheetah doctor diff node1.json node2.json node3.json\n\nExits with 1 when hosts "
      "differ.\n");
  command->callback([=, &action] { action = [=] { return run_diff(*files); }; });
}

struct ChecklistInput {
  std::string file = "doctor-answers.yaml";
  std::vector<std::string> answer;  // ID DECISION
  std::string by, note;
  int review_days = 180;
};

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[16];
  std::strftime(text, sizeof text, "%Y-%m-%d", &parts);
  return text;
}

int run_checklist(const ChecklistInput& input) {
  Acknowledgements all;
  if (std::ifstream(input.file).good()) all = parse_acknowledgements(read_text(input.file), input.file);
  if (!input.answer.empty()) {
    const Acknowledgement one{
        input.answer[0], input.answer[1], input.by, today(), input.note, input.review_days};
    if (input.by.empty()) throw UsageError("--by is missing: an answer needs a name");
    all[one.id] = one;
    const std::string text = acknowledgements_yaml(all);
    parse_acknowledgements(text, "--answer");  // refuses what could not be read back
    AtomicFile(input.file).write(text);
  }
  print_report(checklist_text(all, today()));
  return 0;
}

void add_checklist(CLI::App& parent, Action& action) {
  auto* command = parent.add_subcommand(
      "checklist", "The whole checklist: automatic, measured, and questions for a person");
  auto input = std::make_shared<ChecklistInput>();
  command->add_option("--answers", input->file, "the file of answers")->capture_default_str();
  command
      ->add_option(
          "--answer", input->answer, "an item and done, not-applicable or accepted-risk: kept in the file")
      ->expected(2);
  command->add_option("--by", input->by, "who answers");
  command->add_option("--note", input->note, "evidence, or where it is written down");
  command->add_option("--review-days", input->review_days, "ask again after so many days")
      ->check(CLI::Range(1, 36500))
      ->capture_default_str();
  command->footer(
      "\nExamples:\n  cheetah doctor checklist\n  cheetah doctor checklist --answer A06 done --by Ada --note "
      "'driver notes read each month'\n");
  command->callback([=, &action] { action = [=] { return run_checklist(*input); }; });
}

}  // namespace

void add_doctor_inputs(CLI::App& doctor, Action& action) {
  add_pod(doctor, action);
  add_engine(doctor, action);
  add_profile(doctor, action);
  add_measure(doctor, action);
  add_diff(doctor, action);
  add_checklist(doctor, action);
}

}  // namespace cheetah
