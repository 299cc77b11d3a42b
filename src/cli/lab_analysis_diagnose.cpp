// SPDX-License-Identifier: MIT
// cheetah lab diagnose: from a kernel's counters to its limit, with evidence, remedies and what should
// change.
#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "base/mapped_file.h"
#include "base/text.h"
#include "cli/lab_analysis.h"
#include "cli/output.h"
#include "lab/analysis/diagnose.h"
#include "lab/analysis/lab_results.h"

namespace cheetah {
namespace {

constexpr const char* kExamples = R"(
FILE is what Nsight Compute wrote with --csv (page raw or details), what 'cheetah lab run --json' wrote, or JSON:
  {"kernels": [{"name": "copy", "counters": {"dram_pct": 25, "sectors_per_request": 8, "lane_bytes": 4},
                "stalls": {"long_scoreboard": 60}}]}

Examples:
  ncu --set full --page raw --csv ./program > before.csv && cheetah lab diagnose before.csv
  cheetah lab diagnose after.csv --before before.csv --kernel copy
  cheetah lab diagnose --counters
)";

constexpr int64_t kMaxBytes = int64_t{512} << 20;

struct DiagnoseOptions {
  std::string file, before, kernel;
  bool counters = false, json = false;
};

std::vector<analysis::Counters> read_counters(const std::string& path) {
  const MappedFile file = MappedFile::open(path);
  if (file.size() > kMaxBytes)
    throw Error(format("{}: larger than {} MiB: export fewer kernels", path, kMaxBytes >> 20));
  std::vector<analysis::Counters> all;
  if (trimmed(file.text().substr(0, 4096)).starts_with("{")) {
    const Json document = parse_json(file.text(), path);
    all = analysis::is_lab_run(document) ? analysis::counters_of_run(document, path)
                                         : analysis::counters_from_json(document, path);
  } else {
    for (const KernelCounters& kernel : read_ncu_csv(file.text()))
      all.push_back(analysis::counters_from_ncu(kernel));
  }
  if (!all.empty()) return all;
  const bool refused = file.text().find("ERR_NVGPUCTRPERM") != std::string_view::npos;
  throw Error(
      refused ? format("{}: the driver refused counters (ERR_NVGPUCTRPERM): load it with "
                       "NVreg_RestrictProfilingToAdminUsers=0, or profile as root",
                    path)
              : format("{}: no kernel in it: expected Nsight Compute's CSV (ncu --csv) or our JSON", path));
}

std::vector<analysis::Diagnosis> diagnosed(const std::string& path, const std::string& kernel) {
  std::vector<analysis::Diagnosis> all;
  for (const analysis::Counters& counters : read_counters(path))
    if (counters.name.find(kernel) != std::string::npos) all.push_back(analysis::diagnose(counters));
  if (all.empty()) throw Error(format("{}: no kernel's name contains '{}'", path, printable(kernel)));
  return all;
}

// The kernel of the same name; kernels of one name are matched in order.
const analysis::Diagnosis* match(const std::vector<analysis::Diagnosis>& before,
    const std::vector<analysis::Diagnosis>& after, size_t index) {
  const std::string& name = after[index].counters.name;
  const auto same = [&](const analysis::Diagnosis& d) { return d.counters.name == name; };
  auto nth = std::count_if(after.begin(), after.begin() + static_cast<std::ptrdiff_t>(index), same);
  for (const analysis::Diagnosis& candidate : before)
    if (same(candidate) && nth-- == 0) return &candidate;
  return before.size() == 1 && after.size() == 1 ? &before[0] : nullptr;
}

int list_counters() {
  for (const analysis::CounterName& counter : analysis::counter_names())
    print(format("{:<26} {}{}\n", counter.name, counter.meaning,
        counter.collect.empty() ? "" : format("  [ncu {}]", counter.collect)));
  return 0;
}

int run_diagnose(const DiagnoseOptions& options) {
  if (options.counters) return list_counters();
  if (options.file.empty()) throw UsageError("lab diagnose needs a FILE of counters (or --counters)");
  const std::vector<analysis::Diagnosis> all = diagnosed(options.file, options.kernel);
  std::vector<analysis::Diagnosis> before;
  if (!options.before.empty()) before = diagnosed(options.before, options.kernel);
  Json kernels = Json::array();
  std::string text;
  for (size_t i = 0; i < all.size(); ++i) {
    Json one = analysis::diagnosis_json(all[i]);
    text.append(i == 0 ? "" : "\n").append(analysis::diagnosis_text(all[i]));
    if (const analysis::Diagnosis* old = match(before, all, i)) {
      const analysis::Comparison change = analysis::compare(*old, all[i]);
      text += analysis::comparison_text(change);
      one["comparison"] = analysis::comparison_json(change);
    }
    kernels.push_back(std::move(one));
  }
  print(options.json ? dump_json({{"file", options.file}, {"kernels", std::move(kernels)}}, 2) + "\n" : text);
  return 0;
}

}  // namespace

void add_lab_diagnose(CLI::App& lab, Action& action) {
  auto* command = lab.add_subcommand("diagnose", "Which limit a kernel runs into, how we know, what to try");
  auto options = std::make_shared<DiagnoseOptions>();
  command->add_option("file", options->file, "Nsight Compute's CSV, the lab's JSON, or JSON of counters");
  command->add_option("--before", options->before, "counters before the change: tells whether it worked");
  command->add_option("--kernel", options->kernel, "only kernels whose name contains this");
  command->add_flag("--counters", options->counters, "list the counters the rules know");
  command->add_flag("--json", options->json, "print one JSON object");
  command->footer(kExamples);
  command->callback([=, &action] { action = [=] { return run_diagnose(*options); }; });
}

}  // namespace cheetah
