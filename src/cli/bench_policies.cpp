// SPDX-License-Identifier: MIT
// cheetah bench policies: what the cluster's policies achieve on a simulated clock. The numbers are the same
// on every machine.
#include "cli/bench_policies.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <numeric>

#include "base/format.h"
#include "base/json.h"
#include "base/table.h"
#include "cli/bench_report.h"
#include "cli/json_file.h"
#include "cli/numbers.h"
#include "cli/output.h"
#include "cluster/policy/simulation/scaling_day.h"
#include "cluster/policy/simulation/scenarios.h"

namespace cheetah {
namespace {

namespace sim = cluster::throughput;

constexpr const char* kExamples = R"(
Examples:
  cheetah bench policies
  cheetah bench policies --seeds 10 --json cluster-policies.json

Simulated: the router's own policies, workers that take the time a measured engine takes (llama-8b, BF16, one H200:
results/h200/engine.json), a network of 200 Gb/s. A seed gives the arrivals and the lengths.
)";

constexpr double kLoads[] = {1.5, 2, 3};
constexpr const char* kSettings =
    "The settings were chosen with seed 1, a load of 2 and the shape prompts_then_answers, and then kept: "
    "all other "
    "seeds, loads and shapes were run with them as they are.";

struct PolicyBenchOptions {
  std::string json;
  int64_t seeds = 5;
};

// The same scenario under each seed.
template <class Make>
std::vector<sim::Report> runs(int64_t seeds, Make make) {
  std::vector<sim::Report> reports;
  for (int64_t seed = 1; seed <= seeds; ++seed) {
    sim::Scenario scenario = make();
    scenario.seed = static_cast<uint64_t>(seed);
    reports.push_back(sim::run(scenario));
  }
  return reports;
}

template <class Value>
std::vector<double> each(const std::vector<sim::Report>& reports, Value value) {
  std::vector<double> values;
  for (const sim::Report& report : reports) values.push_back(value(report));
  return values;
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

Json json_of(const std::vector<double>& values) {
  return {{"mean", mean(values)}, {"least", *std::ranges::min_element(values)},
      {"most", *std::ranges::max_element(values)}, {"by_seed", values}};
}

double compliance(const sim::Report& report) { return report.compliance(); }
double goodput(const sim::Report& report) { return report.goodput_rps(); }
double premium_ttft(const sim::Report& report) { return sim::ttft_quantile(report, sim::kPremium, 0.99); }
double premium_tpot(const sim::Report& report) { return sim::tpot_quantile(report, sim::kPremium, 0.99); }
double premium_answered(const sim::Report& report) {
  return static_cast<double>(std::ranges::count(report.finished, sim::kPremium, &sim::Finished::class_index));
}

Json overload(int64_t seeds, Table& table) {
  Json rows = Json::array();
  for (const double load : kLoads) {
    const auto on = runs(seeds, [&] { return sim::overload(load, true); });
    const auto off = runs(seeds, [&] { return sim::overload(load, false); });
    const sim::Scenario scenario = sim::overload(load, true);
    rows.push_back({{"load", load}, {"offered_rps", scenario.streams.front().requests_per_s},
        {"capacity_rps", sim::capacity_rps(scenario, scenario.streams.front())},
        {"with_admission", {{"share_in_time_of_accepted", json_of(each(on, compliance))},
                               {"in_time_rps", json_of(each(on, goodput))}}},
        {"without_admission", {{"share_in_time_of_accepted", json_of(each(off, compliance))},
                                  {"in_time_rps", json_of(each(off, goodput))}}}});
    table.add({format("overload {:.1f}x, in time of the accepted", load),
        format("{:.1f} %", 100 * mean(each(on, compliance))),
        format("{:.1f} % without admission", 100 * mean(each(off, compliance)))});
  }
  return rows;
}

Json flood(int64_t seeds, Table& table) {
  const auto alone = runs(seeds, [] { return sim::free_tier_flood(0); });
  const std::vector<double> quiet = each(alone, premium_ttft);
  Json rows = Json::array();
  for (const double load : kLoads) {
    const auto beside = runs(seeds, [&] { return sim::free_tier_flood(load); });
    const auto bare = runs(seeds, [&] { return sim::without_classes(sim::free_tier_flood(load)); });
    std::vector<double> more = each(beside, premium_ttft), refused = each(alone, premium_answered);
    for (size_t i = 0; i < more.size(); ++i) more[i] = more[i] / quiet[i] - 1;
    const std::vector<double> answered = each(beside, premium_answered);
    for (size_t i = 0; i < refused.size(); ++i) refused[i] -= answered[i];
    rows.push_back({{"free_tier_load", load}, {"premium_p99_ttft_ms", json_of(each(beside, premium_ttft))},
        {"premium_p99_ttft_more_than_alone", json_of(more)},
        {"premium_p99_tpot_ms", json_of(each(beside, premium_tpot))}, {"premium_refused", json_of(refused)},
        {"in_time_rps", json_of(each(beside, goodput))},
        {"preempted",
            json_of(each(beside, [](const sim::Report& r) { return static_cast<double>(r.preempted); }))},
        {"without_classes", {{"premium_p99_ttft_ms", json_of(each(bare, premium_ttft))}}}});
    table.add({format("premium p99 TTFT beside a {:.1f}x flood", load),
        format("{:.1f} ms ({:+.1f} %, at most {:+.1f} %)", mean(each(beside, premium_ttft)), 100 * mean(more),
            100 * *std::ranges::max_element(more)),
        format("{:.0f} ms without classes", mean(each(bare, premium_ttft)))});
  }
  return {{"premium_alone_p99_ttft_ms", json_of(quiet)},
      {"premium_alone_p99_tpot_ms", json_of(each(alone, premium_tpot))}, {"rows", rows}};
}

Json shifts(int64_t seeds, Table& table) {
  Json rows = Json::array();
  for (const sim::ShiftShape& shape : sim::shift_shapes()) {
    const auto moving = runs(seeds, [&] { return sim::traffic_shift(shape, 3, true); });
    Json fixed = Json::array();
    double best = 0;
    int best_prefill = 1;
    for (int prefill = 1; prefill < sim::kShiftWorkers; ++prefill) {
      const auto still =
          each(runs(seeds, [&] { return sim::traffic_shift(shape, prefill, false); }), goodput);
      fixed.push_back({{"prefill", prefill}, {"in_time_rps", json_of(still)}});
      if (mean(still) <= best) continue;
      best = mean(still);
      best_prefill = prefill;
    }
    const auto flips = each(moving, [](const sim::Report& r) { return static_cast<double>(r.flips.size()); });
    rows.push_back({{"shape", shape.name}, {"adaptive_in_time_rps", json_of(each(moving, goodput))},
        {"flips", json_of(flips)}, {"best_fixed_prefill", best_prefill}, {"best_fixed_in_time_rps", best},
        {"adaptive_by_best_fixed", mean(each(moving, goodput)) / best}, {"fixed", fixed}});
    table.add({"shift " + shape.name, format("{:.1f} requests/s in time", mean(each(moving, goodput))),
        format("{:.1f} best fixed split ({}P{}D)", best, best_prefill, sim::kShiftWorkers - best_prefill)});
  }
  return rows;
}

// A day of load, for a model that loads in one minute and in four.
Json scaling_days(int64_t seeds, Table& table) {
  struct Way {
    const char* name;
    sim::DayScaler scaler;
  };
  constexpr Way kWays[] = {{"goals", sim::DayScaler::kSlo}, {"oracle", sim::DayScaler::kOracle},
      {"reactive", sim::DayScaler::kReactive}};
  Json rows = Json::array();
  for (const double start_s : {60.0, 240.0}) {
    Json row = {{"start_s", start_s}};
    std::string line[3];
    for (size_t way = 0; way < std::size(kWays); ++way) {
      std::vector<double> in_time, hours, changes;
      for (int64_t seed = 1; seed <= seeds; ++seed) {
        const sim::DayReport report =
            sim::run_day({.start_s = start_s, .seed = static_cast<uint64_t>(seed)}, kWays[way].scaler);
        in_time.push_back(report.in_time);
        hours.push_back(report.replica_hours);
        changes.push_back(static_cast<double>(report.changes));
      }
      row[kWays[way].name] = {{"share_in_time", json_of(in_time)}, {"replica_hours", json_of(hours)},
          {"changes", json_of(changes)}};
      line[way] = format("{:.2f} %, {:.0f} replica hours", 100 * mean(in_time), mean(hours));
    }
    rows.push_back(row);
    table.add({format("a day, {:.0f} s to load: in time", start_s), line[0],
        format("{} oracle; {} reactive", line[1], line[2])});
  }
  return rows;
}

int run_bench_policies(const PolicyBenchOptions& options) {
  JsonFile json(options.json);
  Table table({"situation (simulated)", "with the policies", "beside"});
  Json result = {{"schema_version", 1}, {"kind", "bench-policies"}, {"provenance", provenance(1)}};
  result["simulated"] = true;
  result["settings"] = kSettings;
  result["seeds"] = options.seeds;
  result["overload"] = overload(options.seeds, table);
  result["free_tier_flood"] = flood(options.seeds, table);
  result["traffic_shift"] = shifts(options.seeds, table);
  result["autoscale_day"] = scaling_days(options.seeds, table);
  if (options.json != "-") print(table.render());
  json.write(result);
  return 0;
}

}  // namespace

void add_bench_policies(CLI::App& bench, Action& action) {
  auto* command = bench.add_subcommand("policies", "What the cluster's policies achieve, simulated");
  auto options = std::make_shared<PolicyBenchOptions>();
  accept_counts(
      command->add_option("--seeds", options->seeds, "runs of each situation")->capture_default_str(), 1,
      1000);
  command->add_option(
      "--json", options->json, "write the result with its provenance to FILE; - prints it instead");
  command->footer(kExamples);
  command->callback([=, &action] { action = [=] { return run_bench_policies(*options); }; });
}

}  // namespace cheetah
