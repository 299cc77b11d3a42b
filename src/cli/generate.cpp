// SPDX-License-Identifier: MIT
// cheetah generate: one prompt in, text out as it is made.
#include <CLI/CLI.hpp>

#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "cli/command.h"
#include "cli/conversation.h"
#include "cli/engine_options.h"
#include "cli/input.h"
#include "cli/numbers.h"
#include "cli/output.h"
#include "cli/sampling_options.h"
#include "cli/timings.h"
#include "model/generation.h"
#include "model/tokenizer/tokenizer.h"

namespace cheetah {
namespace {

constexpr const char* kExamples = R"(
Examples:
  cheetah generate -p 'Once upon a time'
  cheetah generate -m model.gguf --chat -p 'Why is the sky blue?' --temperature 0 -n 200
  echo 'The dragon' | cheetah generate --seed 7 --stats
  cheetah generate -m ORG/NAME -p 'Hello' --dtype q8_0 --json
)";

struct GenerateOptions {
  EngineOptions engine;
  SamplingOptions sampling;
  std::optional<std::string> prompt;
  bool chat = false;
  std::string system;
  int64_t context = 0;  // 0: what the prompt and the new tokens need
  bool json = false;
  bool stats = false;
  bool raw = false;
};

std::string read_prompt(const GenerateOptions& options) {
  if (options.prompt) return *options.prompt;
  if (stdin_is_terminal())
    throw UsageError(
        "no prompt: give one with -p 'TEXT' or on standard input; see 'cheetah generate --help'");
  return read_standard_input();
}

std::vector<int32_t> prompt_tokens(
    const Model& model, const GenerateOptions& options, const std::string& text) {
  if (!model.tokenizer())
    throw Error(format("{}: the model has no tokenizer, so it cannot read a prompt", model.name()));
  if (!options.chat) return model.tokenizer()->encode(text, {.add_special = true, .parse_special = true});
  std::vector<ChatMessage> messages;
  if (!options.system.empty()) messages.push_back({"system", options.system});
  messages.push_back({"user", text});
  return chat_prompt(model, messages);
}

// The context to hold: what was asked for, or what this prompt can need; never past the model's positions.
int64_t wanted_context(const ModelTraits& traits, const GenerateOptions& options, int64_t prompt) {
  const int64_t limit = traits.max_positions;
  if (options.context > limit)
    throw UsageError(format(
        "--ctx-size: {} is more than the {} positions the model was made for", options.context, limit));
  const int64_t available = options.context ? options.context : limit;
  if (prompt >= available)
    throw Error(format("the prompt has {} tokens; the {} holds {}, and at least one must be left to answer",
        prompt, options.context ? "context (--ctx-size)" : "model", available));
  return std::min(available, prompt + options.sampling.max_tokens);
}

Json result_json(const GenerationResult& result, const LocalEngine& engine, uint64_t seed) {
  return {{"schema_version", 1}, {"model", engine.model().name()}, {"text", result.text},
      {"tokens", result.tokens}, {"finish_reason", std::string(name_of(result.reason))}, {"seed", seed},
      {"device", engine.device_name()}, {"timings", timings_json(result)}};
}

int run_generate(const GenerateOptions& options) {
  if (!options.system.empty() && !options.chat)
    throw UsageError("--system needs --chat: a plain prompt has no system message");
  const std::string text = read_prompt(options);
  LocalEngine engine(options.engine);
  const std::vector<int32_t> prompt = prompt_tokens(engine.model(), options, text);
  const GenerationParams params = resolve(options.sampling, engine.path());
  KvPool pool = engine.make_kv_pool(wanted_context(engine.model().traits(), options, std::ssize(prompt)));
  if (options.stats) print_note(text_of(engine.budget()));
  CachedSequence sequence(engine.model(), engine.runner(), pool);
  const TextSink sink = [&](std::string_view piece) {
    if (!options.json && !piece.empty()) print_model_text(piece, options.raw);
    return true;
  };
  const GenerationResult result = generate(engine.model(), sequence, prompt, params, sink);
  print(options.json ? dump_json(result_json(result, engine, params.seed)) + "\n" : "\n");
  flush_output();
  if (result.reason == StopReason::kContextFull)
    print_note(format("stopped: the context of {} tokens is full", sequence.capacity()));
  if (options.stats) print_note(timings_text(result) + format(", seed {}", params.seed));
  return 0;
}

}  // namespace

void add_generate(CLI::App& root, Action& action) {
  auto* command = root.add_subcommand("generate", "Continue a prompt, or answer it with --chat");
  auto options = std::make_shared<GenerateOptions>();
  command->add_option("-p,--prompt", options->prompt, "the prompt (default: standard input)");
  command->add_flag("--chat", options->chat, "wrap the prompt in the model's chat template");
  command->add_option("--system", options->system, "system message, with --chat");
  add_engine_options(*command, options->engine);
  add_sampling_options(*command, options->sampling);
  accept_counts(command->add_option("-c,--ctx-size", options->context,
                    "tokens of context to hold (default: the prompt and --max-tokens)"),
      1, int64_t{1} << 30);
  command->add_flag("--json", options->json, "print one JSON object at the end instead of streaming text");
  command->add_flag("--stats", options->stats, "tell memory, speed and seed on standard error");
  command->add_flag("--raw", options->raw, "do not filter control characters on a terminal");
  command->footer(kExamples);
  command->callback([=, &action] { action = [=] { return run_generate(*options); }; });
}

}  // namespace cheetah
