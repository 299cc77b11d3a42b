// SPDX-License-Identifier: MIT
// cheetah bench serve: latency, throughput and goodput of a running OpenAI-compatible server.
#include "cli/bench_serve.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/format.h"
#include "cli/bench_report.h"
#include "cli/json_file.h"
#include "cli/numbers.h"
#include "cli/output.h"
#include "cli/signals.h"
#include "load/load_bench.h"

namespace cheetah {
namespace {

constexpr const char* kExamples = R"(
Examples:
  cheetah bench serve --url http://127.0.0.1:8000 --concurrency 16
  cheetah bench serve --rate 4 --duration 60 --dataset sharegpt-like --slo-ttft 500 --slo-tpot 50
  cheetah bench serve --sweep 1:32:6 --slo-ttft 500 --slo-tpot 50 --html sweep.html --json sweep.json
  cheetah bench serve --arrival trace --dataset mooncake.jsonl
  cheetah bench serve --rate 2 --dataset prefix-heavy --prefix-tokens 1024 --prompt-tokens 64

Works with every server that streams /v1/chat/completions or /v1/completions. Latencies count from the time a
request was due; docs/bench-serve.md defines each number. The key may stand in OPENAI_API_KEY.
)";

struct ServeBenchOptions {
  std::string url = "http://127.0.0.1:8000";
  std::string endpoint = "chat";
  std::string dataset = "random";
  std::string arrival = "poisson";
  std::string sweep, extra, json, html;
  int64_t prompt_tokens = 0, output_tokens = 0;
  double rate = 0, slo_ttft_ms = 0, slo_tpot_ms = 0, duration_s = 0, temperature = 0;
  uint64_t seed = 0;
  LoadBenchOptions bench;
};

std::optional<double> seconds_if_set(double milliseconds) {
  return milliseconds > 0 ? std::optional(milliseconds / 1e3) : std::nullopt;
}

void set_workload(LoadBenchOptions& bench, const ServeBenchOptions& options) {
  WorkloadPlan plan = workload_plan_from(options.dataset, options.prompt_tokens, options.output_tokens);
  plan.spread = bench.workload.spread;
  plan.prefix_tokens = bench.workload.prefix_tokens;
  plan.prefix_share = bench.workload.prefix_share;
  plan.num_prefixes = bench.workload.num_prefixes;
  plan.seed = options.seed;
  bench.workload = plan;
}

// From what was typed to what is done. Throws UsageError.
LoadBenchOptions resolve(const ServeBenchOptions& options) {
  LoadBenchOptions bench = options.bench;
  bench.server.url = parse_server_url(options.url);
  const std::string& key = bench.server.api_key;
  if (!std::all_of(key.begin(), key.end(), [](char c) { return c > ' ' && c < 0x7F; }))
    throw UsageError("--api-key: expected printable ASCII characters");
  bench.body.chat = options.endpoint == "chat";
  bench.body.temperature = options.temperature;
  if (!options.extra.empty()) {
    bench.body.extra = parse_json(options.extra, "--extra-body");
    if (!bench.body.extra.is_object()) throw UsageError("--extra-body: expected a JSON object");
  }
  bench.arrival.kind = arrival_kind_from(options.arrival);
  bench.arrival.seed = options.seed;
  if (options.rate > 0) bench.rate = options.rate;
  if (!options.sweep.empty()) bench.sweep = sweep_plan_from(options.sweep);
  if (options.duration_s > 0) bench.duration_s = options.duration_s;
  bench.slo = {.ttft_s = seconds_if_set(options.slo_ttft_ms), .tpot_s = seconds_if_set(options.slo_tpot_ms)};
  set_workload(bench, options);
  check(bench);
  return bench;
}

void show_progress(const BenchProgress& progress, double duration_s) {
  if (!stderr_is_terminal()) return;
  const LoadProgress& load = progress.load;
  constexpr int kWidth = 16;
  const double by_count =
      progress.total > 0 ? static_cast<double>(load.done) / static_cast<double>(progress.total) : 0;
  const double by_time = std::isfinite(duration_s) ? load.elapsed_s / duration_s : 0;
  const double share = std::min(1.0, progress.total > 0 ? by_count : by_time);
  std::string bar;
  for (int i = 0; i < kWidth; ++i) bar += i < static_cast<int>(share * kWidth) ? "█" : "░";
  const std::string step = progress.num_steps > 1 ? format("{}/{} {:.3g}/s ", progress.step + 1,
                                                        progress.num_steps, progress.rate.value_or(0))
                                                  : "";
  show_status(format("{}{} {:4.0f} s  {} sent  {} running  {} done  {} failed  {:.0f} events/s", step, bar,
      load.elapsed_s, load.sent, load.running, load.done, load.failed,
      static_cast<double>(load.events) / std::max(load.elapsed_s, 1e-3)));
}

int run_bench_serve(const ServeBenchOptions& options) {
  const LoadBenchOptions bench = resolve(options);
  JsonFile json(options.json);
  const AtomicFile page(options.html);
  const InterruptScope interrupt;
  LoadReport report = run_load_bench(bench, [&](const BenchProgress& progress) {
    show_progress(progress, bench.duration_s);
    return !interrupt.pending();
  });
  show_status("");
  report.provenance = provenance(1);
  if (options.json != "-") print_report(report_text(report));
  json.write(report_json(report));
  page.write(report_html(report));
  if (interrupt.pending()) return 130;
  const bool answered = std::any_of(report.steps.begin(), report.steps.end(),
      [](const LoadStep& step) { return step.summary.completed > 0; });
  return answered ? 0 : 1;
}

constexpr int64_t kMostTokens = int64_t{1} << 22;

void add_server_flags(CLI::App& command, ServeBenchOptions& options) {
  command.add_option("--url", options.url, "the server, http or https")->capture_default_str();
  command.add_option(
      "-m,--model", options.bench.body.model, "model name to ask for; the server's first by default");
  command.add_option("--api-key", options.bench.server.api_key, "sent as a bearer token")
      ->envname("OPENAI_API_KEY");
  command.add_option("--endpoint", options.endpoint, "chat or completions")
      ->check(CLI::IsMember({"chat", "completions"}))
      ->capture_default_str();
  command.add_flag("--tls-insecure", options.bench.server.tls_insecure, "take any certificate");
  command.add_option("--timeout", options.bench.server.timeout_s, "seconds for one request")
      ->check(CLI::Range(0.001, 1e6))
      ->capture_default_str();
}

void add_load_flags(CLI::App& command, ServeBenchOptions& options) {
  command.add_option("--rate", options.rate, "requests per second, whatever the server answers (open loop)")
      ->check(CLI::Range(1e-3, 1e6));
  accept_counts(command.add_option("--concurrency", options.bench.concurrency,
                    "requests at once (closed loop); with --rate: at most so many"),
      1, 65536);
  command.add_option("--sweep", options.sweep, "LOW:HIGH:STEPS: a run at each rate, to find the knee");
  accept_counts(
      command.add_option("--requests", options.bench.num_requests, "requests (of each rate); 100 by default"),
      1, 100'000'000);
  command
      .add_option(
          "--duration", options.duration_s, "seconds of arrivals (of each rate); 30 by default in a sweep")
      ->check(CLI::Range(0.1, 1e6));
  command.add_option("--arrival", options.arrival, "poisson, constant, bursty or trace")
      ->capture_default_str();
  command
      .add_option("--burst-shape", options.bench.arrival.burst_shape,
          "gamma shape of bursty gaps; 1 is Poisson, smaller is burstier")
      ->check(CLI::Range(0.01, 100.0))
      ->capture_default_str();
  accept_counts(command.add_option("--warmup", options.bench.warmup, "requests before the measurement")
                    ->capture_default_str(),
      0, 10000);
  command
      .add_option(
          "--slo-ttft", options.slo_ttft_ms, "milliseconds to the first token a good request may take")
      ->check(CLI::Range(1e-3, 1e9));
  command.add_option("--slo-tpot", options.slo_tpot_ms, "milliseconds a token after it")
      ->check(CLI::Range(1e-3, 1e9));
}

void add_dataset_flags(CLI::App& command, ServeBenchOptions& options) {
  command
      .add_option("--dataset", options.dataset, "random, sharegpt-like, prefix-heavy or a JSON Lines file")
      ->capture_default_str();
  accept_counts(command.add_option("--prompt-tokens", options.prompt_tokens,
                    "mean length of prompts; the dataset's own by default"),
      1, kMostTokens);
  accept_counts(command.add_option("--output-tokens", options.output_tokens,
                    "mean length of answers; the dataset's own by default"),
      1, kMostTokens);
  command
      .add_option(
          "--spread", options.bench.workload.spread, "lengths lie evenly within this share of the mean")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  accept_counts(command
                    .add_option("--prefix-tokens", options.bench.workload.prefix_tokens,
                        "shared beginning of prefix-heavy prompts")
                    ->capture_default_str(),
      1, kMostTokens);
  command
      .add_option(
          "--prefix-share", options.bench.workload.prefix_share, "share of requests that begin with it")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  accept_counts(
      command.add_option("--prefixes", options.bench.workload.num_prefixes, "different shared beginnings")
          ->capture_default_str(),
      1, 1'000'000);
  command.add_option("--seed", options.seed, "of lengths, words and arrivals")->capture_default_str();
  command.add_option("--temperature", options.temperature, "of the requests")
      ->check(CLI::Range(0.0, 10.0))
      ->capture_default_str();
  command.add_flag("--ignore-eos", options.bench.body.ignore_eos,
      "ask for answers of full length (cheetah, vLLM, SGLang, llama.cpp)");
  accept_counts(command.add_option("--prompt-ids", options.bench.body.id_limit,
                    "prompts of token ids below this, for exact lengths and models without a tokenizer "
                    "(completions only)"),
      2, 100'000'000);
  command.add_option("--extra-body", options.extra, "JSON object merged into every request");
}

}  // namespace

void add_bench_serve(CLI::App& bench, Action& action) {
  auto* command = bench.add_subcommand("serve", "Latency, throughput and goodput of a running server");
  auto options = std::make_shared<ServeBenchOptions>();
  add_server_flags(*command, *options);
  add_load_flags(*command, *options);
  add_dataset_flags(*command, *options);
  command->add_option("--json", options->json, "write everything measured to FILE; - prints it instead");
  command->add_option("--html", options->html, "write a page with plots to FILE");
  command->footer(kExamples);
  command->callback([=, &action] { action = [=] { return run_bench_serve(*options); }; });
}

}  // namespace cheetah
