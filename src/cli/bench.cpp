// cheetah bench engine: prompt and decode speed of a model on this machine, against its measured ceilings.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>

#include "base/error.h"
#include "base/format.h"
#include "cli/bench_report.h"
#include "cli/command.h"
#include "cli/engine_options.h"
#include "cli/numbers.h"
#include "cli/output.h"
#include "hw/ceilings.h"

namespace cheetah {
namespace {

constexpr const char* kExamples = R"(
Examples:
  cheetah bench engine --model random:llama-134m --dtype q8_0 --threads 2
  cheetah bench engine -m model.gguf --prompt 512 --gen 128 --batch 1,8,32
  cheetah bench engine -m random:llama-1b --dtype q4_k --json result.json

--model also takes random:llama-134m, random:llama-1b and random:llama-8b: seeded random weights of those sizes.
)";

struct BenchOptions {
  EngineOptions engine;
  EngineBenchPlan plan;
  std::string batches = "1";
  std::string json;
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
  if (plan.context() == 0) throw UsageError("--prompt and --gen are both 0: nothing to measure");
  if (plan.context() > traits.max_positions)
    throw UsageError(format("--prompt {} and --gen {} need {} positions; the model has {}",
                            plan.prompt_tokens, plan.new_tokens, plan.context(), traits.max_positions));
}

void show_progress(double share) {
  if (!stderr_is_terminal()) return;
  std::fprintf(stderr, share < 1 ? "\rmeasuring %3.0f %%" : "\r\033[K", 100 * share);
}

// Opened before anything is measured, so that a wrong path costs no time.
class JsonFile {
 public:
  explicit JsonFile(const std::string& path) : path_(path) {
    if (path.empty() || path == "-") return;
    file_.open(path, std::ios::binary);
    if (!file_) throw Error(format("{}: cannot be written", path));
  }
  void write(const Json& result) {
    const std::string text = dump_json(result, 2) + "\n";
    if (path_ == "-") print(text);
    if (file_.is_open() && !(file_ << text).flush())
      throw Error(format("{}: cannot write the result", path_));
  }

 private:
  std::string path_;
  std::ofstream file_;
};

int run_bench_engine(const BenchOptions& options) {
  EngineBenchPlan plan = options.plan;
  plan.batches = parse_batches(options.batches);
  JsonFile json(options.json);
  LocalEngine engine(options.engine);
  check_plan(plan, engine.model().traits());
  constexpr int64_t kPageTokens = 16;
  const int64_t tokens = plan.num_pages(kPageTokens) * kPageTokens;
  KvPool pool = engine.make_kv_pool(tokens);
  if (pool.num_pages() < plan.num_pages(pool.page_tokens()))
    throw Error(
        format("the caches of batch {} do not fit in memory; use a smaller --batch, --prompt or --gen",
               plan.max_batch()));
  const double bandwidth = measure_read_bandwidth(engine.threads());
  const double fma_peak = measure_fma_peak(engine.threads());
  const EngineBenchSamples samples =
      run_engine_bench(engine.model(), engine.runner(), pool, plan, show_progress);
  const BenchFacts facts{.model = engine.model(),
                         .plan = plan,
                         .samples = samples,
                         .dtype = engine.weight_type(),
                         .kv_dtype = engine.kv_dtype(),
                         .compute = options.engine.compute,
                         .threads = engine.threads().num_threads(),
                         .read_bandwidth = bandwidth,
                         .fma_peak = fma_peak};
  if (options.json != "-") print(bench_table(facts));
  json.write(bench_json(facts));
  return 0;
}

void add_engine(CLI::App& bench, Action& action) {
  auto* command = bench.add_subcommand("engine", "Prompt and decode speed of a model on this machine");
  auto options = std::make_shared<BenchOptions>();
  add_engine_options(*command, options->engine);
  constexpr int64_t kMost = int64_t{1} << 24;
  accept_counts(
      command->add_option("--prompt", options->plan.prompt_tokens, "prompt tokens")->capture_default_str(), 0,
      kMost);
  accept_counts(command->add_option("--gen", options->plan.new_tokens, "decode steps")->capture_default_str(),
                0, kMost);
  command->add_option("--batch", options->batches, "batch sizes to decode, e.g. 1,8,32")
      ->capture_default_str();
  accept_counts(command->add_option("--repeat", options->plan.repeats, "repeats of each measurement")
                    ->capture_default_str(),
                1, 1000);
  command->add_option("--json", options->json,
                      "write the result with its provenance to FILE; - prints it instead");
  command->footer(kExamples);
  command->callback([=, &action] { action = [=] { return run_bench_engine(*options); }; });
}

}  // namespace

void add_bench(CLI::App& root, Action& action) {
  auto* command = root.add_subcommand("bench", "Measure the engine");
  command->require_subcommand(1);
  add_engine(*command, action);
}

}  // namespace cheetah
