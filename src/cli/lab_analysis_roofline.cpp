// SPDX-License-Identifier: MIT
// cheetah lab roofline: kernels under the roofs of every level of memory and every number type.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <optional>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/format.h"
#include "base/text.h"
#include "cli/lab.h"
#include "cli/lab_analysis.h"
#include "cli/output.h"
#include "lab/analysis/lab_results.h"
#include "lab/analysis/roofline.h"
#include "lab/history.h"
#include "lab/result_json.h"

namespace cheetah {
namespace {

constexpr const char* kExamples = R"(
Roofs come from a run of the lab (kept, or written with --json), from --roofs FILE, which is such a run or
  {"source": "…", "measured": true, "memory": {"dram": 4.2e12, "l2": 9e12}, "math": {"fp32": 6e13, "bf16": 8e14}}
or, for planning, from a data sheet (--card).

Examples:
  cheetah lab roofline --only cpu/gemm
  cheetah lab roofline results/h200/lab.json --only ch09
  cheetah lab roofline --roofs results/h200/lab.json --point name=gemv,flops=2e9,bytes=2.1e9,us=600,dtype=bf16
  cheetah lab roofline --card h200 --point flops=1e9,bytes=12e9 --json
)";

struct RooflineOptions {
  std::string run, roofs, card, only, domain, svg;
  std::string history = default_lab_history();
  std::vector<std::string> points;
  bool json = false;
};

struct Question {
  analysis::RoofSet roofs;
  std::vector<analysis::RooflinePoint> points;
};

std::string domain_of(const analysis::RoofSet& roofs) {
  return roofs.source.ends_with("(cpu)") ? "cpu" : "cuda";
}

analysis::RoofSet read_roofs(const Json& document, const RooflineOptions& options, const std::string& path) {
  return analysis::is_lab_run(document) ? analysis::roofs_of_run(document, options.domain, path)
                                        : analysis::roofs_from_json(document, path);
}

// A file, or a run of the history by its number or as "last"; nothing when there is no name and no history.
std::optional<Json> load_lab_json(const std::string& name, const std::string& history_path) {
  const bool is_number = !name.empty() && name.find_first_not_of("0123456789") == std::string::npos;
  if (!name.empty() && name != "last" && !is_number) return read_json_file(name);
  if (!std::filesystem::exists(history_path)) {
    if (name.empty()) return std::nullopt;
    throw Error(format("{}: no run is kept yet; 'cheetah lab run' makes one", history_path));
  }
  const lab::History history(history_path, lab::History::Mode::kRead);
  const std::optional<int64_t> id = is_number ? to_integer(name) : history.newest();
  if (id) return lab::run_json(history.run(*id));
  if (name.empty()) return std::nullopt;
  throw Error(
      format("{}: no run is kept yet, or '{}' is not a number of one", history_path, printable(name)));
}

Question question_of(const RooflineOptions& options) {
  Question question;
  std::optional<Json> run;
  const bool asks_history = options.roofs.empty() && options.card.empty();
  if (!options.run.empty() || asks_history) run = load_lab_json(options.run, options.history);
  if (!options.roofs.empty())
    question.roofs = read_roofs(read_json_file(options.roofs), options, options.roofs);
  else if (!options.card.empty())
    question.roofs = analysis::data_sheet(options.card);
  else if (run)
    question.roofs = read_roofs(*run, options, options.run);
  else
    throw UsageError(
        "lab roofline needs roofs: a RUN of the lab (none is kept yet), --roofs FILE or --card NAME");
  if (run && analysis::is_lab_run(*run)) {
    const std::string domain = options.domain.empty() ? domain_of(question.roofs) : options.domain;
    for (analysis::RooflinePoint& point : analysis::points_of_run(*run, domain, options.run))
      if (point.name.find(options.only) != std::string::npos) question.points.push_back(std::move(point));
    if (question.points.empty() && !options.only.empty())
      throw Error(format("{}: no timed variant with floating-point work has '{}' in its name", options.run,
          printable(options.only)));
  }
  for (const std::string& point : options.points) question.points.push_back(analysis::parse_point(point));
  return question;
}

int run_roofline(const RooflineOptions& options) {
  const Question question = question_of(options);
  const AtomicFile drawing(options.svg);
  std::vector<analysis::PointReading> readings;
  for (const analysis::RooflinePoint& point : question.points)
    readings.push_back(analysis::read_point(question.roofs, point));
  print(options.json ? dump_json(analysis::roofline_json(question.roofs, readings), 2) + "\n"
                     : analysis::roofline_text(question.roofs, readings));
  drawing.write(analysis::roofline_svg(question.roofs, readings));
  return 0;
}

}  // namespace

void add_lab_roofline(CLI::App& lab, Action& action) {
  auto* command =
      lab.add_subcommand("roofline", "Where kernels stand under the roofs, and how far they can rise");
  auto options = std::make_shared<RooflineOptions>();
  command->add_option("run", options->run,
      "roofs and points: JSON of 'lab run', or the number of a kept run (default: the newest)");
  command->add_option("--history", options->history, "where runs are kept")->capture_default_str();
  auto* roofs = command->add_option("--roofs", options->roofs, "take the roofs from this file instead");
  command
      ->add_option(
          "--card", options->card, "roofs of a data sheet, not measured: h200, h100, b200, a100, l40s")
      ->excludes(roofs);
  command
      ->add_option("--point", options->points,
          "name=…,flops=…,bytes=…,us=…,dtype=… and bytes of other levels as l2=…,l1=…; repeatable")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->add_option("--only", options->only, "only points of the run whose name contains this");
  command->add_option("--domain", options->domain, "cuda or cpu (default: cuda where it was measured)")
      ->check(CLI::IsMember({"cuda", "cpu"}));
  command->add_option("--svg", options->svg, "draw it into FILE");
  command->add_flag("--json", options->json, "print one JSON object");
  command->footer(kExamples);
  command->callback([=, &action] { action = [=] { return run_roofline(*options); }; });
}

}  // namespace cheetah
