// SPDX-License-Identifier: MIT
// cheetah run-batch: a file of API calls in, a file of answers out, without a server.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "base/error.h"
#include "base/format.h"
#include "cli/command.h"
#include "cli/engine_options.h"
#include "cli/output.h"
#include "cli/serve_node.h"
#include "cli/signals.h"
#include "engine/engine.h"
#include "engine/grammar/grammar_cache.h"
#include "engine/memory_plan.h"
#include "serve/batch_run.h"

namespace cheetah {
namespace {

constexpr const char* kExamples = R"(
Examples:
  cheetah run-batch -i requests.jsonl -o answers.jsonl
  cheetah run-batch ORG/NAME -i requests.jsonl -o answers.jsonl --max-sequences 128

A line of the input is {"custom_id": "1", "method": "POST", "url": "/v1/chat/completions", "body": {...}}, as in
OpenAI's batch files; a line of the output has the same custom_id and the answer. Answers come as they are ready.
)";

struct RunBatchOptions {
  ServeOptions serve;
  std::string input, output;
};

std::istream& open_input(const std::string& path, std::ifstream& file) {
  if (path == "-") return std::cin;
  file.open(path, std::ios::binary);
  if (!file || std::filesystem::is_directory(path))
    throw Error(format("-i {}: cannot be read as a file of requests", printable(path, 256)));
  return file;
}

// Answers grow beside the file they are for, which appears when it is whole.
class AnswerFile {
 public:
  explicit AnswerFile(std::string path) : path_(std::move(path)), partial_(path_ + ".part") {
    if (path_ == "-") return;
    file_.open(partial_, std::ios::binary | std::ios::trunc);
    if (!file_) throw Error(format("-o {}: cannot be written", printable(path_, 256)));
  }
  void write(const std::string& line) {
    if (path_ == "-")
      print(line + "\n");
    else if (!(file_ << line << '\n'))
      throw Error(format("-o {}: cannot be written: is the disk full?", printable(partial_, 256)));
  }
  // Gives the file its name.
  void finish() {
    if (path_ == "-") return;
    file_.close();
    if (!file_) throw Error(format("-o {}: cannot be written: is the disk full?", printable(partial_, 256)));
    std::filesystem::rename(partial_, path_);
  }
  const std::string& partial() const { return partial_; }

 private:
  std::string path_, partial_;
  std::ofstream file_;
};

int run_batch(const RunBatchOptions& options) {
  std::ifstream file;
  std::istream& input = open_input(options.input, file);
  AnswerFile output(options.output);
  const std::shared_ptr<const Model> model = load_model(options.serve.engine);
  GrammarCache grammars(*model);
  Engine engine(model, plan_memory(*model, engine_config(options.serve)).config);
  const ApiServices services = make_api_services(options.serve, *model, engine.config(), grammars);
  const auto start = std::chrono::steady_clock::now();
  BatchRun batch(engine, {&services}, {.window = engine.config().max_sequences * 2, .priority = 0});
  ShutdownSignals signals;
  int signal = 0;
  const BatchCounts counts = batch.run(
      [&]() -> std::optional<std::string> {
        std::string line;
        return std::getline(input, line) ? std::optional(std::move(line)) : std::nullopt;
      },
      [&](const std::string& line, const BatchCounts&) { output.write(line); },
      [&] {
        if (signal == 0) signal = signals.wait_for(std::chrono::milliseconds(0));
        return signal != 0;
      });
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (signal != 0) {
    print_note(format(
        "signal {}: {} answers are in {}", signal, counts.completed + counts.failed, output.partial()));
    return 130;
  }
  output.finish();
  print_note(format("{} requests in {:.1f} s: {} answered, {} refused", counts.total, seconds,
      counts.completed, counts.failed));
  return 0;
}

}  // namespace

void add_run_batch(CLI::App& root, Action& action) {
  auto* command = root.add_subcommand("run-batch", "Answer a file of API requests, without a server");
  auto options = std::make_shared<RunBatchOptions>();
  command
      ->add_option(
          "-i,--input-file", options->input, "requests, one JSON object per line; - is standard input")
      ->required();
  command
      ->add_option(
          "-o,--output-file", options->output, "answers, one JSON object per line; - is standard output")
      ->required();
  add_engine_options(*command, options->serve.engine);
  command
      ->add_option(
          "--max-sequences,--max-num-seqs", options->serve.config.max_sequences, "sequences decoded at once")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  command->footer(kExamples);
  command->callback([=, &action] { action = [=] { return run_batch(*options); }; });
}

}  // namespace cheetah
