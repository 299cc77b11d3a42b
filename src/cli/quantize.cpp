// SPDX-License-Identifier: MIT
// cheetah quantize: a model in fewer bits, with the proof of what that cost.
#include <CLI/CLI.hpp>

#include "base/error.h"
#include "base/format.h"
#include "base/table.h"
#include "cli/command.h"
#include "cli/count_progress.h"
#include "cli/engine_options.h"
#include "cli/model_lookup.h"
#include "cli/numbers.h"
#include "cli/output.h"
#include "quantize/calibration.h"
#include "quantize/quantize.h"

namespace cheetah {
namespace {

constexpr const char* kExamples = R"(
Examples:
  cheetah quantize cub-7m --to q4_0 --out cub-q4.gguf
  cheetah quantize models/cub-7m --to int4 --group 32 --out cub-int4
  cheetah quantize cub-7m --to fp8-block --out cub-fp8 --max-kl 0.01
  cheetah quantize cub-7m --to gptq-int4 --calibration stories.txt --out cub-gptq

The last step evaluates the result beside its source and keeps that in the result (cheetah_evaluation.json, or
cheetah.evaluation in a GGUF file), with hashes of weights and data. Above --max-kl the result is marked as
failed and the exit code is 1. An interrupted run goes on where it stopped.

Formats:
)";

struct QuantizeCommand {
  std::string model, to;
  QuantizeOptions options;
  CalibrationOptions calibration;
  int threads = 0;
  bool json = false;
};

// A bar for each of the two stages, made when its length is known.
class Stages {
 public:
  explicit Stages(bool quiet) : quiet_(quiet) {}
  void begin(const char* label, const char* unit, int64_t total) {
    progress_.reset();
    if (!quiet_) progress_ = std::make_unique<CountProgress>(label, unit, 0, total);
  }
  void advance() {
    if (progress_) progress_->advance();
  }
  void end() { progress_.reset(); }

 private:
  bool quiet_;
  std::unique_ptr<CountProgress> progress_;
};

Json json_of(const QuantizeCommand& command, const SourceModel& source, const QuantizeReport& report) {
  return {{"schema_version", 1}, {"out", command.options.out}, {"format", command.to},
      {"source_bytes", source.checkpoint().file_bytes()}, {"bytes", report.written.bytes},
      {"quantized", report.written.quantized}, {"kept", report.written.kept},
      {"resumed", report.written.resumed}, {"notes", report.written.notes}, {"gate", report.gate.document},
      {"passed", report.gate.passed}};
}

void print_report(const QuantizeCommand& command, const SourceModel& source, const QuantizeReport& report) {
  const WriteReport& written = report.written;
  print(format("{}: {} in {}, {} before; {} matrices quantized, {} tensors kept{}\n",
      styled(command.options.out, Style::kBold), human_bytes(static_cast<double>(written.bytes)), command.to,
      human_bytes(static_cast<double>(source.checkpoint().file_bytes())), written.quantized, written.kept,
      written.resumed > 0 ? format(", {} of them written before", written.resumed) : ""));
  for (const std::string& note : written.notes) print_note(note);
  if (report.gate.document.is_null()) {
    print_note("not evaluated: there is no heldout.u16 beside the source; give a text with --data");
    return;
  }
  print("\n" + text_of(report.gate.evaluation));
}

// Calibrated formats need one; types with 6-bit scales can use one.
std::unique_ptr<Calibration> calibrate(
    const QuantizeCommand& command, const TargetFormat& target, const SourceModel& source) {
  const bool k_type =
      target.dtype == DType::kQ4_K || target.dtype == DType::kQ5_K || target.dtype == DType::kQ6_K;
  const bool can = target.is_calibrated() || (target.layout == Layout::kGguf && k_type);
  if (!can && !command.calibration.file.empty())
    throw UsageError(format("--calibration: --to {} is rounded without one", command.to));
  if (!target.is_calibrated() && command.calibration.file.empty()) return nullptr;
  Calibration::Options options{.text = command.calibration};
  if (target.rounding == Rounding::kAwq)
    options.scale_for = LinearEncoder(source, target, command.options.group).rules();
  if (!command.json) print_note("calibrating");
  return std::make_unique<Calibration>(source, options);
}

int run_quantize(const QuantizeCommand& command) {
  const TargetFormat& target = target_format(command.to);
  ThreadPool pool({.num_threads = command.threads});
  const SourceModel source(find_model(command.model), pool);
  check_out(target, command.options.out);
  const std::unique_ptr<Calibration> calibration = calibrate(command, target, source);
  QuantizeOptions options = command.options;
  if (calibration) options.gate.calibration = calibration->about();
  Stages stages(command.json);
  const QuantizeReport report = quantize(source, target, options, calibration.get(),
      {.write = {.begin = [&](int64_t tensors) { stages.begin("quantizing", "tensors", tensors); },
           .tensor = [&] { stages.advance(); }},
          .gate = {.begin = [&](int64_t windows) { stages.begin("evaluating", "windows", windows); },
              .window = [&] { stages.advance(); }}});
  stages.end();
  if (command.json)
    print(dump_json(json_of(command, source, report), 2) + "\n");
  else
    print_report(command, source, report);
  if (report.gate.passed) return 0;
  print_error(
      report.gate.document.is_null()
          ? format("{}: not evaluated, so --max-kl is not met: give a text with --data", command.options.out)
          : format("{}: its KL divergence of {:.4g} is above --max-kl {:.4g}: marked as failed",
                command.options.out, report.gate.evaluation.kl.mean, *command.options.gate.max_kl));
  return 1;
}

}  // namespace

void add_quantize(CLI::App& root, Action& action) {
  auto* command = root.add_subcommand("quantize", "Write a model in fewer bits and measure what that costs");
  auto shared = std::make_shared<QuantizeCommand>();
  QuantizeOptions& options = shared->options;
  add_model_option(*command, shared->model);
  command->add_option("--to", shared->to, "the format, see below")->required();
  command->add_option("--out", options.out, "the folder, or the .gguf file")->required();
  accept_counts(
      command->add_option("--group", options.group,
          "inputs to a scale, for integer formats (default: the largest of 128, 64, 32, 16 that fits)"),
      8, 1 << 20);
  command->add_option("--calibration", shared->calibration.file,
      "text, .u16 or .jsonl to calibrate on (default: samples of the model's own)");
  accept_counts(
      command->add_option("--calibration-tokens", shared->calibration.tokens, "tokens of it at most")
          ->capture_default_str(),
      2, int64_t{1} << 40);
  command->add_option("--data", options.gate.data,
      "evaluate on this text, .u16 or .jsonl (default: heldout.u16 beside the source)");
  accept_counts(command->add_option("--window", options.gate.window, "tokens read at once in the evaluation")
                    ->capture_default_str(),
      2, int64_t{1} << 20);
  accept_counts(command->add_option("--limit", options.gate.max_windows, "windows evaluated at most; 0: all")
                    ->capture_default_str(),
      0, int64_t{1} << 40);
  command->add_option("--max-kl", options.gate.max_kl, "fail above this KL divergence, nats per token")
      ->check(CLI::NonNegativeNumber);
  add_threads_option(*command, shared->threads);
  command->add_flag("--json", shared->json, "print one JSON object");
  command->footer(kExamples + target_format_help());
  command->callback([=, &action] { action = [=] { return run_quantize(*shared); }; });
}

}  // namespace cheetah
