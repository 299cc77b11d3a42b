// SPDX-License-Identifier: MIT
// cheetah pull: a model of the hub into the cache that other programs share.
#include "hub/pull.h"

#include <CLI/CLI.hpp>
#include <cstdlib>

#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "base/progress.h"
#include "base/table.h"
#include "cli/command.h"
#include "cli/model_lookup.h"
#include "cli/numbers.h"
#include "cli/output.h"
#include "cli/signals.h"

namespace cheetah {
namespace {

constexpr const char* kExamples = R"(
Examples:
  cheetah pull ORG/NAME
  cheetah pull ORG/NAME:Q8_0
  cheetah pull ORG/NAME@v1.0 --token-file token.txt
  cheetah pull ORG/NAME/model-Q4_K_M.gguf
  HF_ENDPOINT=https://mirror.example cheetah pull ORG/NAME

Run it again after an interruption: it goes on where it ended. Every file is checked against the hub's checksum, and the
model appears when all of it is there. HF_TOKEN, HF_HOME, HF_ENDPOINT, HTTPS_PROXY and NO_PROXY are read.
)";

struct PullFlags {
  std::string model, token_file;
  hub::PullOptions options;
  bool json = false;
};

std::string text_of(int64_t bytes) { return human_bytes(static_cast<double>(bytes)); }

hub::PullPlan pull_with_progress(const hub::HubSettings& settings, const HubReference& reference,
    const PullFlags& flags, const InterruptScope& interrupt) {
  std::unique_ptr<Progress> progress;
  return hub::pull(settings, reference, flags.options,
      {.stop = [&] { return interrupt.pending(); },
          .begins =
              [&](const hub::PullPlan& plan) {
                print_note(
                    format("{}: {} file{}, {}, of which {} are to come", flags.model, plan.files.size(),
                        plan.files.size() == 1 ? "" : "s", text_of(plan.bytes), text_of(plan.missing)));
                progress = std::make_unique<Progress>("pull", plan.missing);
              },
          .advances = [&](int64_t bytes) { progress->advance(bytes); }});
}

int run_pull(const PullFlags& flags) {
  hub::HubSettings settings = hub::hub_settings([](const char* name) { return std::getenv(name); });
  if (!flags.token_file.empty()) settings.token = hub::read_token(flags.token_file);
  const auto reference = parse_hub_reference(flags.model);
  if (!reference)
    throw UsageError(
        format("'{}' is not a model of the hub: expected ORG/NAME, ORG/NAME:Q8_0, ORG/NAME/FILE or "
               "ORG/NAME@REVISION",
            printable(flags.model, 200)));
  const InterruptScope interrupt;
  try {
    const hub::PullPlan plan = pull_with_progress(settings, *reference, flags, interrupt);
    const std::string path = find_in_hub_cache(*reference, settings.cache);
    if (flags.json)
      print(dump_json({{"model", flags.model}, {"commit", plan.repository.commit}, {"path", path},
                {"bytes", plan.bytes}, {"downloaded_bytes", plan.missing}, {"files", plan.files.size()}}) +
            "\n");
    else
      print(format("{} is at {}\n", flags.model, path));
    return 0;
  } catch (const Error&) {
    if (!interrupt.pending()) throw;
    print_note("interrupted: what has come is kept; the same command goes on from there");
    return 130;
  }
}

}  // namespace

void add_pull(CLI::App& root, Action& action) {
  auto* command = root.add_subcommand("pull", "Download a model from the hub, or bring it up to date");
  auto flags = std::make_shared<PullFlags>();
  command
      ->add_option(
          "MODEL", flags->model, "ORG/NAME, ORG/NAME:QUANTIZATION, ORG/NAME/FILE, each with @REVISION")
      ->required();
  command->add_option("--token-file", flags->token_file,
      "file with a token for private and gated models (default: HF_TOKEN)");
  command->add_option("-j,--jobs", flags->options.jobs, "files to download at once")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command->add_flag("--json", flags->json, "print one JSON object");
  command->footer(kExamples);
  command->callback([=, &action] { action = [=] { return run_pull(*flags); }; });
}

}  // namespace cheetah
