// SPDX-License-Identifier: MIT
// cheetah bench engine: prompt and decode speed of a model on this machine, against its measured ceilings.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "base/error.h"
#include "base/format.h"
#include "cli/bench_policies.h"
#include "cli/bench_report.h"
#include "cli/bench_scenario.h"
#include "cli/bench_serve.h"
#include "cli/bench_transfer.h"
#include "cli/command.h"
#include "cli/engine_options.h"
#include "cli/gpu_readings.h"
#include "cli/json_file.h"
#include "cli/numbers.h"
#include "cli/output.h"
#include "cli/signals.h"
#include "gpu/ceilings.h"
#include "hw/ceilings.h"
#include "kernels/gemm/cpu_unit.h"
#include "model/weights.h"

namespace cheetah {
namespace {

constexpr const char* kExamples = R"(
Examples:
  cheetah bench engine --model random:llama-134m --dtype q8_0 --threads 2
  cheetah bench engine -m model.gguf --prompt 512 --gen 128 --batch 1,8,32
  cheetah bench engine -m random:llama-1b --dtype q4_k --json result.json
  cheetah bench engine -m random:llama-8b --device cuda --batch 1,8,64 --context 512 --prompts 4 --prompt-tokens 2048
  cheetah bench engine -m random:llama-8b --device cuda --dtype fp8
  cheetah bench engine --scenario streams --batch 1,4,16
  cheetah bench engine -m random:llama-134m --scenario long-prompt --batch 8
  cheetah bench engine --scenario speculation --batch 1,4,16 --repeat 5

--model also takes random:llama-134m, random:llama-1b and random:llama-8b: seeded random weights of those sizes.
)";

constexpr int64_t kDeviceChunk = 8192;  // prompt tokens per step: enough to fill a large device

struct BenchOptions {
  EngineOptions engine;
  EngineBenchPlan plan;
  std::string batches = "1";
  std::string json;
  std::string scenario;
  int64_t long_prompt_tokens = 4096;
  int64_t generations = 1000;
  double step_target_ms = 50;
  int64_t draft_max = ScenarioOptions().draft_max;
};

std::vector<int64_t> parse_batches(const std::string& text) {
  std::vector<int64_t> batches;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    batches.push_back(parse_count("--batch", text.substr(begin, end - begin), 1, 4096));
    begin = end + 1;
  }
  return batches;
}

void check_plan(const EngineBenchPlan& plan, const ModelTraits& traits) {
  if (plan.max_positions() == 0) throw UsageError("--prompt and --gen are both 0: nothing to measure");
  if (plan.max_positions() > traits.max_positions)
    throw UsageError(
        format("a context of {} tokens, {} new ones and prompts of {} need {} positions; the model has {}",
            plan.context_tokens, plan.new_tokens, plan.prompt_length(), plan.max_positions(),
            traits.max_positions));
}

void show_progress(double share) {
  if (!stderr_is_terminal()) return;
  std::fprintf(stderr, share < 1 ? "\rmeasuring %3.0f %%" : "\r\033[K", 100 * share);
}

int run_scenario_bench(const BenchOptions& options, bool default_prompt) {
  const int64_t prompt = default_prompt ? ScenarioOptions().prompt_tokens : options.plan.context_tokens;
  return run_scenario({.engine = options.engine,
      .name = options.scenario,
      .streams = parse_batches(options.batches),
      .prompt_tokens = prompt,
      .new_tokens = options.plan.new_tokens,
      .long_prompt_tokens = options.long_prompt_tokens,
      .generations = options.generations,
      .repeats = options.plan.repeats,
      .draft_max = options.draft_max,
      .step_target_ms = options.step_target_ms,
      .json = options.json});
}

struct Ceilings {
  double read_bandwidth = 0;  // bytes/s
  double fma_peak = 0;        // operations/s
  std::string unit = "F32 FMA";
  double unit_peak = 0;  // operations/s of that
};

// The unit that multiplies most of the model: that of its layers' weights.
CpuUnit unit_of(const Model& model, Precision precision) {
  const AttentionWeights& first = model.weights().layers.front().attention;
  return unit_for(first.o.w, precision);
}

Ceilings measure_cpu_ceilings(ThreadPool& threads, CpuUnit unit) {
  Ceilings ceilings{.read_bandwidth = measure_read_bandwidth(threads), .fma_peak = measure_fma_peak(threads)};
  if (unit == CpuUnit::kInt8Dots)
    ceilings.unit = "INT8 dots", ceilings.unit_peak = measure_int8_dot_peak(threads);
  if (unit == CpuUnit::kBf16Dots)
    ceilings.unit = "BF16 dots", ceilings.unit_peak = measure_bf16_dot_peak(threads);
  if (unit == CpuUnit::kF32) ceilings.unit_peak = ceilings.fma_peak;
  return ceilings;
}

Ceilings measure_ceilings(LocalEngine& engine, Precision precision) {
  if (!engine.on_cuda()) return measure_cpu_ceilings(engine.threads(), unit_of(engine.model(), precision));
  const gpu::DeviceInfo device = gpu::query_device();
  gpu::DeviceMemory memory(device);
  gpu::Stream stream(device);
  Ceilings ceilings{.read_bandwidth = gpu::measure_read_bandwidth(memory, stream),
      .fma_peak = gpu::measure_fma_peak(memory, stream)};
  ceilings.unit_peak = ceilings.fma_peak;
  return ceilings;
}

int run_bench_engine(const BenchOptions& options) {
  EngineBenchPlan plan = options.plan;
  plan.batches = parse_batches(options.batches);
  JsonFile json(options.json);
  LocalEngine engine(options.engine);
  if (engine.on_cuda()) plan.chunk_tokens = kDeviceChunk;
  check_plan(plan, engine.model().traits());
  constexpr int64_t kPageTokens = 16;
  const int64_t tokens = plan.num_pages(kPageTokens) * kPageTokens;
  KvPool pool = engine.make_kv_pool(tokens);
  if (pool.num_pages() < plan.num_pages(pool.page_tokens()))
    throw Error(
        format("the caches of batch {} do not fit in memory; use a smaller --batch, --context or --gen",
            plan.max_batch()));
  const Ceilings ceilings = measure_ceilings(engine, precision_of(options.engine.compute));
  std::optional<GpuRecorder> recorder;
  if (engine.on_cuda()) recorder.emplace(watch_gpu());
  const InterruptScope interrupt;
  const EngineBenchSamples samples =
      run_engine_bench(engine.model(), engine.runner(), pool, plan, [&](double share) {
        show_progress(interrupt.pending() ? 1 : share);
        return !interrupt.pending();
      });
  const BenchFacts facts{.model = engine.model(),
      .plan = plan,
      .samples = samples,
      .dtype = engine.weight_type(),
      .kv_dtype = engine.kv_dtype(),
      .compute = options.engine.compute,
      .threads = engine.threads().num_threads(),
      .device = engine.device_name(),
      .read_bandwidth = ceilings.read_bandwidth,
      .fma_peak = ceilings.fma_peak,
      .unit = ceilings.unit,
      .unit_peak = ceilings.unit_peak,
      .gpu = recorder ? recorder->stop() : std::vector<GpuReading>()};
  if (options.json != "-") print_report(bench_table(facts));
  json.write(bench_json(facts));
  if (!interrupt.pending()) return 0;
  print_note("interrupted: the result holds what was measured until then");
  return 130;
}

void add_engine(CLI::App& bench, Action& action) {
  auto* command = bench.add_subcommand("engine", "Prompt and decode speed of a model on this machine");
  auto options = std::make_shared<BenchOptions>();
  add_engine_options(*command, options->engine);
  constexpr int64_t kMost = int64_t{1} << 24;
  CLI::Option* prompt =
      command->add_option("--prompt,--context", options->plan.context_tokens, "tokens before those decoded")
          ->capture_default_str();
  accept_counts(prompt, 0, kMost);
  accept_counts(
      command->add_option("--gen,--decode", options->plan.new_tokens, "decode steps")->capture_default_str(),
      0, kMost);
  accept_counts(command->add_option("--prompts", options->plan.prompts, "prompts computed at once")
                    ->capture_default_str(),
      1, 4096);
  accept_counts(command->add_option("--prompt-tokens", options->plan.prompt_tokens,
                    "tokens of each of them (default: as --context)"),
      1, kMost);
  command->add_option("--batch", options->batches, "batch sizes to decode, or streams, e.g. 1,8,32")
      ->capture_default_str();
  accept_counts(command->add_option("--repeat", options->plan.repeats, "repeats of each measurement")
                    ->capture_default_str(),
      1, 1000);
  command->add_option(
      "--json", options->json, "write the result with its provenance to FILE; - prints it instead");
  command
      ->add_option("--scenario", options->scenario,
          "measure the whole engine under a load: streams at once (streams), a long prompt amid streams "
          "(long-prompt), prompts that begin alike with the prefix cache on and off (prefix-heavy), JSON "
          "schemas (constrained), drafts on and off (speculation)")
      ->check(CLI::IsMember(scenario_names()));
  accept_counts(command
                    ->add_option("--long-prompt", options->long_prompt_tokens,
                        "tokens of the long prompt, and about those of the shared beginning")
                    ->capture_default_str(),
      1, kMost);
  accept_counts(command->add_option("--generations", options->generations, "texts under JSON schemas")
                    ->capture_default_str(),
      1, 1000000);
  command->add_option("--step-target", options->step_target_ms, "milliseconds a step with prompts may take")
      ->check(CLI::Range(1.0, 10000.0))
      ->capture_default_str();
  accept_counts(command
                    ->add_option("--draft-max", options->draft_max,
                        "tokens drafted per sequence and step in the scenario speculation")
                    ->capture_default_str(),
      1, 32);
  command->footer(kExamples);
  command->callback([=, &action] {
    const bool default_prompt = prompt->empty();
    action = [=] {
      return options->scenario.empty() ? run_bench_engine(*options)
                                       : run_scenario_bench(*options, default_prompt);
    };
  });
}

}  // namespace

void add_bench(CLI::App& root, Action& action) {
  auto* command = root.add_subcommand("bench", "Measure the engine, a running server, or KV transfer");
  command->require_subcommand(1);
  add_engine(*command, action);
  add_bench_serve(*command, action);
  add_bench_transfer(*command, action);
  add_bench_policies(*command, action);
  command->footer(
      "\nExamples:\n  cheetah bench engine -m model.gguf\n  cheetah bench serve --rate 4 --duration 60 --slo-ttft 500\n");
}

}  // namespace cheetah
