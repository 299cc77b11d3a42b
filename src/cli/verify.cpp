// SPDX-License-Identifier: MIT
// cheetah verify: runs models against the reference outputs stored beside them.
#include <CLI/CLI.hpp>
#include <cmath>

#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "base/table.h"
#include "cli/command.h"
#include "cli/engine_options.h"
#include "cli/model_lookup.h"
#include "cli/output.h"
#include "model/verify.h"
#include "model/weights.h"

namespace cheetah {
namespace {

constexpr const char* kExamples = R"(
Examples:
  cheetah verify models/cub-7m
  cheetah verify tests/models/llama tests/models/gguf/llama-Q8_0.gguf
  cheetah verify --compute native --dtype q8_0 models/cub-7m

The references are golden.json in a model's folder, or NAME.golden.json beside NAME.gguf, with heldout.u16 for the
loss on held-out text. Exit code 1 when any model misses its reference.
)";

struct VerifyOptions {
  std::vector<std::string> models;
  int threads = 0;
  std::string dtype;
  std::string compute = "exact";
  std::string device = "auto";
  bool json = false;
};

struct Verified {
  std::string path;
  std::string name;
  VerifyBounds bounds;
  VerifyResult result;
};

Verified verify_model(const VerifyOptions& options, const std::string& name, ThreadPool& pool) {
  const std::string path = find_model(name);
  const VerifyInputs inputs = read_golden(path);
  LoadOptions load;
  load.dtype = weight_dtype(options.dtype);
  const auto model = Model::load(path, load);
  const Precision precision = precision_of(options.compute);
  const bool on_cuda = uses_cuda(options.device), narrow = on_cuda && precision == Precision::kNative;
  const VerifyBounds bounds = verify_bounds({.precision = precision,
                                                .weights = coarsest_type(model->weights()),
                                                .converted = load.dtype.has_value(),
                                                .activations = narrow ? DType::kBF16 : DType::kF32,
                                                .routed = model->traits().moe.experts > 0},
      inputs);
  const auto runner = make_runner(*model, precision, on_cuda, pool);
  return {.path = path,
      .name = model->name(),
      .bounds = bounds,
      .result = verify(*model, *runner, inputs, bounds)};
}

std::string verdict(bool passed) {
  return passed ? styled("ok", Style::kGreen) : styled("MISS", Style::kRed);
}

std::string table_of(const Verified& verified) {
  const VerifyResult& result = verified.result;
  Table table({"case", "tokens", "Δlogit", "Δnll", "ids", "greedy", ""});
  for (const VerifyCase& one : result.cases)
    table.add({printable(one.text, 36), std::to_string(one.num_tokens), format("{:.2e}", one.logit_error),
        format("{:.2e}", one.nll_error),
        !result.tokenizer_checked ? "-"
        : one.ids_match           ? "same"
                                  : "DIFFER",
        format("{}/{}", one.greedy_matched, one.greedy_total), verdict(one.passed)});
  std::string text = table.render();
  if (result.chat_matches) text += format("chat template   {}\n", verdict(*result.chat_matches));
  if (const auto& heldout = result.heldout)
    text += format("held-out text   {} tokens, nll {:.5f}, reference {:.5f}, Δ {:.1e} (bound {:.0e})   {}\n",
        heldout->num_tokens, heldout->nll, heldout->expected, std::abs(heldout->nll - heldout->expected),
        verified.bounds.heldout, verdict(heldout->passed));
  return text;
}

Json json_of(const Verified& verified) {
  const VerifyResult& result = verified.result;
  Json cases = Json::array();
  for (const VerifyCase& one : result.cases)
    cases.push_back({{"text", one.text}, {"tokens", one.num_tokens}, {"logit_error", one.logit_error},
        {"nll_error", one.nll_error}, {"ids_match", one.ids_match}, {"greedy_matched", one.greedy_matched},
        {"greedy_total", one.greedy_total}, {"greedy_gap", one.greedy_gap}, {"passed", one.passed}});
  Json json = {{"model", verified.name}, {"path", verified.path}, {"passed", result.passed},
      {"bounds", {{"logit", verified.bounds.logit}, {"nll", verified.bounds.nll},
                     {"heldout", verified.bounds.heldout}}},
      {"cases", cases}};
  if (result.chat_matches) json["chat_matches"] = *result.chat_matches;
  if (const auto& heldout = result.heldout)
    json["heldout"] = {{"tokens", heldout->num_tokens}, {"nll", heldout->nll},
        {"expected", heldout->expected}, {"passed", heldout->passed}};
  return json;
}

int run_verify(const VerifyOptions& options) {
  const std::string device = uses_cuda(options.device) ? "cuda" : "cpu";
  ThreadPool pool({.num_threads = options.threads});
  int64_t passed = 0;
  Json models = Json::array();
  const std::vector<std::string> names =
      options.models.empty() ? std::vector<std::string>{""} : options.models;
  for (const std::string& name : names) {
    const Verified verified = verify_model(options, name, pool);
    passed += verified.result.passed;
    if (options.json) {
      models.push_back(json_of(verified));
      continue;
    }
    print(format("{} ({}, compute {}{}): {}\n{}\n", styled(verified.name, Style::kBold), device,
        options.compute, options.dtype.empty() ? "" : ", weights as " + options.dtype,
        verdict(verified.result.passed), table_of(verified)));
    flush_output();
  }
  const auto total = std::ssize(names);
  if (options.json)
    print(dump_json({{"schema_version", 1}, {"compute", options.compute}, {"device", device},
                        {"passed", passed == total}, {"models", models}},
              2) +
          "\n");
  else if (total > 1)
    print(format("{} of {} models match their references\n", passed, total));
  return passed == total ? 0 : 1;
}

}  // namespace

void add_verify(CLI::App& root, Action& action) {
  auto* command = root.add_subcommand("verify", "Check models against the reference outputs beside them");
  auto options = std::make_shared<VerifyOptions>();
  command->add_option(
      "MODEL,-m,--model", options->models, "model folders or GGUF files (default: the embedded model)");
  add_threads_option(*command, options->threads);
  add_dtype_option(*command, options->dtype);
  add_compute_option(*command, options->compute);
  add_device_option(*command, options->device);
  command->add_flag("--json", options->json, "print one JSON object");
  command->footer(kExamples);
  command->callback([=, &action] { action = [=] { return run_verify(*options); }; });
}

}  // namespace cheetah
