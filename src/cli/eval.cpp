// SPDX-License-Identifier: MIT
// cheetah eval: a model's loss on text, and how far it is from the model it was made of.
#include <CLI/CLI.hpp>

#include "base/error.h"
#include "base/format.h"
#include "cli/command.h"
#include "cli/count_progress.h"
#include "cli/engine_options.h"
#include "cli/model_lookup.h"
#include "cli/numbers.h"
#include "cli/output.h"
#include "model/files/checkpoint.h"
#include "quantize/eval_state.h"
#include "quantize/sha256.h"

namespace cheetah {
namespace {

constexpr const char* kExamples = R"(
Examples:
  cheetah eval cub-7m
  cheetah eval cub-7m-q4.gguf --against cub-7m --data novel.txt --window 1024
  cheetah eval cub-7m --dtype q4_0 --against cub-7m --json
  cheetah eval big-model --against big-model-bf16 --data corpus.jsonl --state eval.state

Data is heldout.u16 beside the model unless --data names a file: text, .u16 (token ids), or .jsonl with
an object per line, either {"text": "..."} or {"prompt": "...", "choices": ["...", "..."], "answer": 0}.
Intervals are 95 % and count windows, not tokens, as independent. With --state, an interrupted run goes on
where it stopped. Exit code 1 when the KL divergence is above --max-kl.
)";

struct EvalOptions {
  std::string model, against, data, dtype, state;
  std::string compute = "exact";
  std::string device = "auto";
  int threads = 0;
  int64_t window = 512;
  int64_t max_windows = 0;
  std::optional<double> max_kl;
  bool json = false;
};

struct Loaded {
  std::string path;
  std::unique_ptr<Model> model;
  std::unique_ptr<Runner> runner;
  RunningModel running() const { return {*model, *runner}; }
};

Loaded load(const EvalOptions& options, const std::string& name, const std::string& dtype, ThreadPool& pool) {
  Loaded loaded{.path = find_model(name), .model = nullptr, .runner = nullptr};
  LoadOptions load;
  load.dtype = weight_dtype(dtype);
  load.show_progress = !options.json;
  loaded.model = Model::load(loaded.path, load);
  loaded.runner = make_runner(*loaded.model, precision_of(options.compute), uses_cuda(options.device), pool);
  return loaded;
}

std::string data_path(
    const EvalOptions& options, const Loaded& model, const std::optional<Loaded>& reference) {
  if (!options.data.empty()) return options.data;
  std::string path = heldout_beside(model.path);
  if (path.empty() && reference) path = heldout_beside(reference->path);
  if (path.empty())
    throw UsageError(
        format("{}: there is no heldout.u16 beside the model: give a text with --data", model.path));
  return path;
}

Json hashed(const Loaded& loaded) {
  const Checkpoint checkpoint = Checkpoint::open(loaded.path);
  return {{"name", loaded.model->name()}, {"path", loaded.path}, {"bytes", checkpoint.file_bytes()},
      {"weights_sha256", sha256_of(checkpoint.tensors())}};
}

Json key_of(const EvalOptions& options, const Json& model, const Json& reference, const EvalData& data) {
  return {{"evaluation", 1}, {"model", model["weights_sha256"]},
      {"reference", reference.is_null() ? Json() : reference["weights_sha256"]}, {"data", data.sha256},
      {"window", data.window}, {"dtype", options.dtype}, {"compute", options.compute},
      {"device", uses_cuda(options.device) ? "cuda" : "cpu"}};
}

int64_t num_units(const EvalData& data) { return std::ssize(data.windows) + std::ssize(data.questions); }

EvaluationScores score(const EvalData& data, const Loaded& model, const std::optional<Loaded>& reference,
    ThreadPool& pool, EvalState& state) {
  const int64_t done = std::ssize(state.scores().windows) + std::ssize(state.scores().questions);
  CountProgress progress(
      "evaluating", data.questions.empty() ? "windows" : "questions", done, num_units(data));
  std::optional<RunningModel> other;
  if (reference) other.emplace(reference->running());
  evaluate(data, done, model.running(), other, pool,
      {.window =
              [&](int64_t, const WindowScore& window) {
                state.add(window);
                progress.advance();
              },
          .question =
              [&](int64_t, const QuestionScore& question) {
                state.add(question);
                progress.advance();
              }});
  EvaluationScores scores = state.scores();
  scores.windows.resize(std::min(scores.windows.size(), data.windows.size()));
  scores.questions.resize(std::min(scores.questions.size(), data.questions.size()));
  return scores;
}

// The same text must be the same tokens to both, or their predictions are of different things.
void check_tokenizers(
    const Loaded& model, const Loaded& reference, const EvalData& data, const EvalDataOptions& options) {
  if (data.source.ends_with(".u16") || !data.questions.empty() || !reference.model->tokenizer()) return;
  if (read_eval_data(data.source, *reference.model, options).windows != data.windows)
    throw Error(format("{} and {} split {} into different tokens: they cannot be compared", model.path,
        reference.path, data.source));
}

int run_eval(const EvalOptions& options) {
  if (options.max_kl && options.against.empty())
    throw UsageError("--max-kl needs --against: the divergence is from another model");
  ThreadPool pool({.num_threads = options.threads});
  const Loaded model = load(options, options.model, options.dtype, pool);
  std::optional<Loaded> reference;
  if (!options.against.empty()) reference.emplace(load(options, options.against, "", pool));
  const EvalDataOptions limits{.window = options.window, .max_windows = options.max_windows};
  const EvalData data = read_eval_data(data_path(options, model, reference), *model.model, limits);
  if (reference) check_tokenizers(model, *reference, data, limits);
  if (options.window > model.model->traits().max_positions)
    throw UsageError(format("--window {} is longer than the {} positions of {}", options.window,
        model.model->traits().max_positions, model.model->name()));
  const Json about = hashed(model), about_reference = reference ? hashed(*reference) : Json();
  EvalState state = options.state.empty()
                        ? EvalState()
                        : EvalState(options.state, key_of(options, about, about_reference, data));
  const Evaluation result = summarize(score(data, model, reference, pool, state), reference.has_value());
  const bool passed = !options.max_kl || result.kl.mean <= *options.max_kl;
  if (options.json) {
    Json json = {{"schema_version", 1}, {"model", about}, {"reference", about_reference},
        {"data", {{"source", data.source}, {"sha256", data.sha256}, {"window", data.window}}},
        {"compute", options.compute}, {"device", uses_cuda(options.device) ? "cuda" : "cpu"},
        {"evaluation", json_of(result)}, {"passed", passed}};
    if (!options.dtype.empty()) json["dtype"] = options.dtype;
    if (options.max_kl) json["max_kl"] = *options.max_kl;
    print(dump_json(json, 2) + "\n");
    return passed ? 0 : 1;
  }
  print(format("{}{} on {}, sha256 {}\n\n{}", styled(model.model->name(), Style::kBold),
      reference ? " against " + reference->model->name() : "", data.source, data.sha256.substr(0, 16),
      text_of(result)));
  if (!passed)
    print(format("\n{}: the KL divergence {:.5g} is above --max-kl {:.5g}\n", styled("MISS", Style::kRed),
        result.kl.mean, *options.max_kl));
  return passed ? 0 : 1;
}

}  // namespace

void add_eval(CLI::App& root, Action& action) {
  auto* command = root.add_subcommand("eval", "Measure perplexity and the divergence from another model");
  auto options = std::make_shared<EvalOptions>();
  add_model_option(*command, options->model);
  command->add_option("--against", options->against, "the reference, usually the model before quantization");
  command->add_option(
      "--data", options->data, "text, .u16 or .jsonl (default: heldout.u16 beside the model)");
  accept_counts(command->add_option("--window", options->window, "tokens read at once, from no context")
                    ->capture_default_str(),
      2, int64_t{1} << 20);
  accept_counts(command->add_option("--limit", options->max_windows, "windows or questions at most; 0: all")
                    ->capture_default_str(),
      0, int64_t{1} << 40);
  command->add_option("--state", options->state, "keep the progress in this file and resume from it");
  command->add_option("--max-kl", options->max_kl, "exit with 1 above this KL divergence, nats per token")
      ->check(CLI::NonNegativeNumber);
  add_threads_option(*command, options->threads);
  add_dtype_option(*command, options->dtype);
  add_compute_option(*command, options->compute);
  add_device_option(*command, options->device);
  command->add_flag("--json", options->json, "print one JSON object");
  command->footer(kExamples);
  command->callback([=, &action] { action = [=] { return run_eval(*options); }; });
}

}  // namespace cheetah
