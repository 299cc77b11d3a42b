// cheetah chat: a conversation in the terminal, or through a pipe, one message a line.
#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "base/table.h"
#include "cli/command.h"
#include "cli/conversation.h"
#include "cli/engine_options.h"
#include "cli/line_reader.h"
#include "cli/numbers.h"
#include "cli/output.h"
#include "cli/sampling_options.h"
#include "cli/signals.h"
#include "cli/timings.h"
#include "model/generation.h"

namespace cheetah {
namespace {

constexpr int64_t kDefaultContext = 8192;

constexpr const char* kExamples = R"(
Examples:
  cheetah chat
  cheetah chat -m model.gguf --system 'Answer in one sentence.' --temperature 0.3
  printf 'Tell me a story\n' | cheetah chat --seed 1
)";

constexpr const char* kCommands = R"(  /help           this list
  /system TEXT    set the system message and start again
  /reset          forget the conversation
  /stats          speed and context of the last answer
  /quit           end (also Ctrl-D); Ctrl-C stops an answer
)";

struct ChatOptions {
  EngineOptions engine;
  SamplingOptions sampling{.max_tokens = 512};
  std::string system;
  int64_t context = 0;
  bool raw = false;
};

int64_t context_size(const ModelTraits& traits, int64_t asked) {
  if (asked > traits.max_positions)
    throw UsageError(format("--ctx-size: {} is more than the {} positions the model was made for", asked,
                            traits.max_positions));
  return asked ? asked : std::min(kDefaultContext, traits.max_positions);
}

// One conversation: messages, the cache that holds their keys and values, and the person at the other end.
class Chat {
 public:
  explicit Chat(const ChatOptions& options)
      : options_(options),
        engine_(options.engine),
        params_(resolve(options.sampling, engine_.path())),
        pool_(engine_.make_kv_pool(context_size(engine_.model().traits(), options.context))),
        sequence_(engine_.model(), engine_.runner(), pool_),
        interactive_(stdin_is_terminal() && stdout_is_terminal()) {
    start_again();
    chat_prompt(engine_.model(), {{"user", "hello"}});  // a model that cannot chat says so now
  }

  int run() {
    greet();
    LineReader lines;
    for (std::string line;;) {
      if (interactive_) print(styled("> ", Style::kGreen));
      flush_output();
      if (!lines.next(line)) break;
      if (line.empty()) continue;
      if (line.front() == '/') {
        if (!obey(line)) return 0;
        continue;
      }
      answer(line);
    }
    if (interactive_) print("\n");
    return 0;
  }

 private:
  void greet() {
    if (!interactive_) return;
    const Model& model = engine_.model();
    print(styled(format("{}, {} parameters, context {} tokens. /help lists the commands.\n", model.name(),
                        human_count(static_cast<double>(model.num_parameters())), sequence_.capacity()),
                 Style::kDim));
  }

  void start_again() {
    messages_.clear();
    if (!options_.system.empty()) messages_.push_back({"system", options_.system});
  }

  // False: the person wants to leave.
  bool obey(const std::string& line) {
    const size_t space = line.find(' ');
    const std::string name = line.substr(0, space);
    if (name == "/quit" || name == "/exit") return false;
    if (name == "/help") {
      print(kCommands);
    } else if (name == "/reset") {
      start_again();
      print(styled("The conversation starts again.\n", Style::kDim));
    } else if (name == "/system") {
      options_.system = space == std::string::npos ? "" : line.substr(space + 1);
      start_again();
      print(styled("System message set; the conversation starts again.\n", Style::kDim));
    } else if (name == "/stats") {
      print(format("{}; {} of {} context tokens used\n", timings_text(last_), sequence_.tokens().size(),
                   sequence_.capacity()));
    } else {
      print(format("{} is not a command:\n{}", printable(name), kCommands));
    }
    return true;
  }

  void answer(const std::string& line) {
    const InterruptScope interrupts;  // only here: at the prompt Ctrl-C ends the program, whenever it comes
    messages_.push_back({"user", line});
    const int64_t capacity = sequence_.capacity();
    const int64_t reserve = std::min(params_.max_tokens, capacity / 4);
    if (const int64_t gone = drop_oldest(engine_.model(), messages_, capacity, reserve))
      print_note(format("the context of {} tokens is full: forgot the {} oldest messages", capacity, gone));
    const auto prompt = chat_prompt(engine_.model(), messages_);
    if (std::ssize(prompt) >= capacity) return refuse(std::ssize(prompt), capacity);
    const TextSink sink = [&](std::string_view piece) {
      if (!piece.empty()) print_model_text(piece, options_.raw);
      return !interrupts.pending();
    };
    last_ = generate(engine_.model(), sequence_, prompt, params_, sink);
    messages_.push_back({"assistant", last_.text});
    ++params_.seed;  // the same question later may get another answer
    print("\n");
    flush_output();
  }

  void refuse(int64_t tokens, int64_t capacity) {
    messages_.pop_back();
    const std::string why = format("the message needs {} tokens but the context holds {}", tokens, capacity);
    if (!interactive_) throw Error(why);
    print_note(why);
  }

  ChatOptions options_;
  LocalEngine engine_;
  GenerationParams params_;
  KvPool pool_;
  CachedSequence sequence_;
  bool interactive_;
  std::vector<ChatMessage> messages_;
  GenerationResult last_;
};

}  // namespace

void add_chat(CLI::App& root, Action& action) {
  auto* command = root.add_subcommand("chat", "Talk with a model in the terminal");
  auto options = std::make_shared<ChatOptions>();
  command->add_option("--system", options->system, "system message");
  add_engine_options(*command, options->engine);
  add_sampling_options(*command, options->sampling);
  accept_counts(command->add_option("-c,--ctx-size", options->context,
                                    "tokens of context to hold (default: 8192, or the model's limit)"),
                16, int64_t{1} << 30);
  command->add_flag("--raw", options->raw, "do not filter control characters on a terminal");
  command->footer(kExamples);
  command->callback([=, &action] { action = [=] { return Chat(*options).run(); }; });
}

}  // namespace cheetah
