// SPDX-License-Identifier: MIT
#include "quantize/gate.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/format.h"
#include "quantize/eval_data.h"
#include "quantize/sha256.h"

namespace cheetah {
namespace {

namespace fs = std::filesystem;

constexpr const char* kEvaluationKey = "cheetah.evaluation";

int64_t tensor_bytes(const TensorMap& tensors) {
  int64_t total = 0;
  for (const auto& [name, view] : tensors) total += view.bytes();
  return total;
}

bool is_quantized_model(const Checkpoint& checkpoint) {
  const auto config = checkpoint.config().find("quantization_config");
  if (config != checkpoint.config().end() && config->is_object()) return true;
  return std::ranges::any_of(
      checkpoint.tensors(), [](const auto& tensor) { return is_quantized(tensor.second.dtype); });
}

Json read_record(const Checkpoint& checkpoint) {
  std::optional<std::string> text = checkpoint.text_file(kEvaluationFile);
  if (const GgufFile* gguf = checkpoint.gguf())
    if (const auto value = gguf->string(kEvaluationKey)) text = std::string(*value);
  if (!text || text->find_first_not_of(" \n") == std::string::npos) return nullptr;
  return parse_json(*text, kEvaluationFile, {.max_bytes = 1 << 20, .max_depth = 8});
}

std::string summary_of(const Json& record) {
  const JsonFields whole(record, kEvaluationFile);
  const Json* found = whole.find("evaluation");
  if (!found || !found->is_object()) return "";
  const auto number = [&](const char* name, const char* part) {
    const auto at = found->find(name);
    return at == found->end() || !at->is_object() ? 0.0 : JsonFields(*at, kEvaluationFile).number_or(part, 0);
  };
  const Json* data = whole.find("data");
  const std::string source =
      data && data->is_object() ? JsonFields(*data, kEvaluationFile).string_or("source", "") : "";
  return format("KL {:.4g} nats per token ({:.4g} .. {:.4g}), perplexity {:.4g}, before {:.4g}, on {}",
      number("kl", "mean"), number("kl", "low"), number("kl", "high"), number("perplexity", "mean"),
      number("reference_perplexity", "mean"), printable(source, 100));
}

}  // namespace

GateResult run_gate(const std::string& path, const SourceModel& source, std::string_view format_name,
    const GateOptions& options, const GateHooks& hooks) {
  GateResult result;
  const std::string data_path = options.data.empty() ? heldout_beside(source.path()) : options.data;
  if (data_path.empty()) {
    result.passed = !options.max_kl;
    return result;
  }
  const auto reference = Model::load(source.path(), {.show_progress = false});
  const auto model = Model::load(path, {.show_progress = false});
  CpuRunner runner(*model, {source.pool(), Precision::kExact});
  CpuRunner reference_runner(*reference, {source.pool(), Precision::kExact});
  const EvalData data = read_eval_data(data_path, *reference,
      {.window = std::min(options.window, reference->traits().max_positions),
          .max_windows = options.max_windows});
  if (hooks.begin) hooks.begin(std::ssize(data.windows) + std::ssize(data.questions));
  EvaluationScores scores;
  const auto note = [&] {
    if (hooks.window) hooks.window();
  };
  evaluate(data, 0, {*model, runner}, RunningModel{*reference, reference_runner}, source.pool(),
      {.window =
              [&](int64_t, const WindowScore& score) {
                scores.windows.push_back(score);
                note();
              },
          .question =
              [&](int64_t, const QuestionScore& score) {
                scores.questions.push_back(score);
                note();
              }});
  result.evaluation = summarize(scores, true);
  result.passed =
      !options.max_kl || (result.evaluation.windows > 0 && result.evaluation.kl.mean <= *options.max_kl);
  const Checkpoint written = Checkpoint::open(path);
  result.document = {{"schema_version", 1}, {"format", format_name},
      {"weights_sha256", sha256_of(written.tensors())}, {"weights_bytes", tensor_bytes(written.tensors())},
      {"source", {{"name", model_name(source.path())},
                     {"weights_sha256", sha256_of(source.checkpoint().tensors())}}},
      {"data", {{"source", fs::path(data_path).filename().string()}, {"sha256", data.sha256},
                   {"window", data.window}}},
      {"evaluation", json_of(result.evaluation)}, {"calibration", options.calibration},
      {"max_kl", options.max_kl ? Json(*options.max_kl) : Json()}, {"passed", result.passed}};
  return result;
}

RecordedEvaluation read_recorded_evaluation(const std::string& path) {
  RecordedEvaluation recorded;
  const Checkpoint checkpoint = Checkpoint::open(path);
  recorded.quantized = is_quantized_model(checkpoint);
  try {
    const Json record = read_record(checkpoint);
    if (!record.is_object()) return recorded;
    const JsonFields fields(record, kEvaluationFile);
    recorded.summary = summary_of(record);
    recorded.passed = fields.boolean_or("passed", false);
    recorded.stale = fields.find("weights_bytes") &&
                     fields.integer("weights_bytes", 0, INT64_MAX) != tensor_bytes(checkpoint.tensors());
    recorded.present = !recorded.summary.empty();
  } catch (const Error&) {  // damaged: as good as none
    recorded.present = false;
  }
  return recorded;
}

}  // namespace cheetah
