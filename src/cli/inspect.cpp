// SPDX-License-Identifier: MIT
// cheetah inspect: what a model is and what it costs, from its headers alone.
#include <CLI/CLI.hpp>
#include <filesystem>

#include "base/error.h"
#include "base/format.h"
#include "cli/command.h"
#include "cli/engine_options.h"
#include "cli/inspect_report.h"
#include "cli/model_lookup.h"
#include "cli/numbers.h"
#include "cli/output.h"
#include "model/cost.h"
#include "model/files/checkpoint.h"
#include "model/model_header.h"

namespace cheetah {
namespace {

constexpr const char* kExamples = R"(
Examples:
  cheetah inspect
  cheetah inspect model.gguf --memory 24GiB
  cheetah inspect random:llama-8b --memory 80GB --json
)";

struct InspectOptions {
  std::string model;
  std::string memory;
  std::string device = "auto";
  bool json = false;
};

ModelFacts facts_of_preset(const std::string& name) {
  ModelFacts facts{.name = name, .traits = random_traits(name), .stored = {}};
  facts.parameters = parameter_count(facts.traits).total();
  facts.weight_bytes = static_cast<int64_t>(all_weight_bytes(facts.traits, facts.main_type));
  return facts;
}

ModelFacts facts_of_file(const std::string& path) {
  const Checkpoint checkpoint = Checkpoint::open(path);
  ModelFacts facts{.name = model_name(path), .traits = describe_model(checkpoint).traits, .stored = {}};
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    ModelFacts::TypeShare& share = facts.stored[tensor.dtype];
    ++share.tensors;
    share.elements += tensor.shape.elements();
    share.bytes += tensor.bytes();
    const bool is_scale = name.ends_with("_scale") || name.ends_with("_scale_inv");
    if (!is_scale) facts.parameters += tensor.shape.elements();
    facts.weight_bytes += tensor.bytes();
  }
  int64_t most = -1;
  for (const auto& [type, share] : facts.stored)
    if (share.elements > most) most = share.elements, facts.main_type = type;
  return facts;
}

// A bare small number is one whose unit was forgotten: no model fits in bytes.
int64_t memory_of(const std::string& text) {
  const int64_t bytes = parse_bytes("--memory", text);
  constexpr int64_t kLeast = 1 << 20;
  if (bytes < kLeast)
    throw UsageError(format("--memory: '{0}' is {1} bytes; add a unit, e.g. {0}GiB", printable(text), bytes));
  return bytes;
}

int run_inspect(const InspectOptions& options) {
  std::optional<int64_t> memory;
  if (!options.memory.empty())
    memory = memory_of(options.memory);
  else if (uses_cuda(options.device))
    memory = gpu::query_device().memory_bytes;
  const std::string path = find_model(options.model);
  const ModelFacts facts = path.starts_with("random:") ? facts_of_preset(path) : facts_of_file(path);
  options.json ? print(dump_json(inspect_json(facts, memory), 2) + "\n")
               : print_report(inspect_text(facts, memory));
  return 0;
}

}  // namespace

void add_inspect(CLI::App& root, Action& action) {
  auto* command = root.add_subcommand("inspect", "Explain a model's size and cost without loading it");
  auto options = std::make_shared<InspectOptions>();
  add_model_option(*command, options->model);
  command->add_option("--memory", options->memory,
      "also tell what context fits in this much memory, e.g. 24GiB (default: the device's)");
  add_device_option(*command, options->device);
  command->add_flag("--json", options->json, "print one JSON object");
  command->footer(kExamples);
  command->callback([=, &action] { action = [=] { return run_inspect(*options); }; });
}

}  // namespace cheetah
