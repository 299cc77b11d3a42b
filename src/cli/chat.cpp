// SPDX-License-Identifier: MIT
// cheetah chat: a conversation in the terminal, or through a pipe, one message a line.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <memory>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "base/table.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/conversation.h"
#include "cli/engine_options.h"
#include "cli/line_editor.h"
#include "cli/line_reader.h"
#include "cli/numbers.h"
#include "cli/output.h"
#include "cli/parse.h"
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

/help lists the commands. Alt-Enter begins a new line, as does a line that ends with a backslash; """ begins and ends a
longer text. Earlier messages come back with the arrow keys.
)";

constexpr const char* kCommands = R"(  /help           this list
  /model [NAME]   talk with another model; without a name: which one this is
  /system TEXT    set the system message and start again
  /save FILE      write the conversation to a JSON file
  /load FILE      go on with a conversation from such a file
  /reset          forget the conversation
  /stats          speed and context of the last answer
  /quit           end (also Ctrl-D); Ctrl-C stops an answer
""" begins and ends a text of several lines; Alt-Enter or a backslash at the end begins a new line.
)";
const std::vector<std::string> kCommandNames = {
    "/help", "/model", "/system", "/save", "/load", "/reset", "/stats", "/quit", "/exit"};

struct ChatOptions {
  EngineOptions engine;
  SamplingOptions sampling{.max_tokens = 512};
  std::string system;
  int64_t context = 0;
  bool raw = false;
};

int64_t context_size(const ModelTraits& traits, int64_t asked) {
  if (asked > traits.max_positions)
    throw UsageError(format(
        "--ctx-size: {} is more than the {} positions the model was made for", asked, traits.max_positions));
  return asked ? asked : std::min(kDefaultContext, traits.max_positions);
}

// Where typed messages are kept for the next session; "" without a home.
std::string history_file() {
  if (const char* state = std::getenv("XDG_STATE_HOME"); state && *state)
    return std::string(state) + "/cheetah/chat_history";
  const char* home = std::getenv("HOME");
  return home && *home ? std::string(home) + "/.local/state/cheetah/chat_history" : "";
}

// A model, what runs it, and the cache of the conversation with it.
struct Partner {
  explicit Partner(const ChatOptions& options)
      : engine(options.engine),
        params(resolve(options.sampling, engine.path())),
        pool(engine.make_kv_pool(context_size(engine.model().traits(), options.context))),
        sequence(engine.model(), engine.runner(), pool) {
    chat_prompt(engine.model(), {{"user", "hello"}});  // a model that cannot chat says so now
  }

  LocalEngine engine;
  GenerationParams params;
  KvPool pool;
  CachedSequence sequence;
};

// One conversation: messages, the model at one end and the person at the other.
class Chat {
 public:
  explicit Chat(const ChatOptions& options)
      : options_(options),
        partner_(std::make_unique<Partner>(options)),
        interactive_(stdin_is_terminal() && stdout_is_terminal()) {
    if (interactive_) editor_ = std::make_unique<LineEditor>(history_file(), kCommandNames);
    start_again();
  }

  int run() {
    greet();
    for (std::string message;;) {
      const Event event = next_message(message);
      if (event == Event::kInterrupted) return 130;
      if (event == Event::kEnd) break;
      if (message.empty()) continue;
      if (message.front() == '/' && message.find('\n') == std::string::npos) {
        if (!obey(message)) return 0;
        continue;
      }
      answer(message);
    }
    if (interactive_) print("\n");
    return 0;
  }

 private:
  using Event = LineEditor::Event;

  void greet() {
    if (!interactive_) return;
    const Model& model = partner_->engine.model();
    print(styled(format("{}, {} parameters, context {} tokens. /help lists the commands.\n", model.name(),
                     human_count(static_cast<double>(model.num_parameters())), partner_->sequence.capacity()),
        Style::kDim));
    flush_output();
  }

  Event next_line(std::string& line, bool goes_on) {
    if (!interactive_) return lines_.next(line) ? Event::kMessage : Event::kEnd;
    const std::string text = goes_on ? ". " : "> ";
    return editor_->read(wants_colour() ? format("\1\033[32m\1{}\1\033[0m\1", text) : text, line);
  }

  // A line, or several: after """ up to the next, and after a backslash.
  Event next_message(std::string& message) {
    message.clear();
    Event event = next_line(message, false);
    if (!interactive_ || event != Event::kMessage) return event;
    constexpr std::string_view kQuotes = "\"\"\"";
    const bool quoted = message.starts_with(kQuotes);
    if (quoted) message.erase(0, kQuotes.size());
    const auto ends = [&] { return quoted ? message.ends_with(kQuotes) : !message.ends_with('\\'); };
    while (!ends()) {
      if (!quoted) message.pop_back();
      std::string line;
      event = next_line(line, true);
      if (event != Event::kMessage) return event;
      message += (message.empty() ? "" : "\n") + line;
    }
    if (quoted) message.resize(message.size() - kQuotes.size());
    while (message.ends_with('\n')) message.pop_back();
    return event;
  }

  void start_again() {
    messages_.clear();
    if (!options_.system.empty()) messages_.push_back({"system", options_.system});
  }

  // False: the person wants to leave.
  bool obey(const std::string& line) {
    const size_t space = line.find(' ');
    const std::string name = line.substr(0, space);
    const std::string rest = space == std::string::npos ? "" : std::string(trimmed(line.substr(space + 1)));
    if (name == "/quit" || name == "/exit") return false;
    try {
      obey(name, rest);
    } catch (const Error& error) {  // of a file or a model: the conversation goes on
      if (!interactive_) throw;
      print_note(error.what());
    }
    return true;
  }

  void obey(const std::string& name, const std::string& rest) {
    if (name == "/help") {
      print(kCommands);
    } else if (name == "/reset") {
      start_again();
      tell("The conversation starts again.");
    } else if (name == "/system") {
      options_.system = rest;
      start_again();
      tell("System message set; the conversation starts again.");
    } else if (name == "/stats") {
      print(format("{}; {} of {} context tokens used\n", timings_text(last_),
          partner_->sequence.tokens().size(), partner_->sequence.capacity()));
    } else if (name == "/save" || name == "/load") {
      if (rest.empty()) throw UsageError(format("{} needs the name of a file", name));
      name == "/save" ? save(rest) : load(rest);
    } else if (name == "/model") {
      change_model(rest);
    } else {
      const std::string near = nearest_name(name, kCommandNames);
      print(format("{} is not a command{}:\n{}", printable(name),
          near.empty() ? "" : format(" (did you mean {}?)", near), kCommands));
    }
  }

  void tell(const std::string& text) { print(styled(text + "\n", Style::kDim)); }

  void save(const std::string& path) {
    AtomicFile(path).write(
        dump_json(conversation_json(partner_->engine.model().name(), messages_), 2) + "\n");
    tell(format("{} messages are in {}.", messages_.size(), path));
  }

  void load(const std::string& path) {
    messages_ = conversation_from_json(read_json_file(path), path);
    options_.system =
        !messages_.empty() && messages_.front().role == "system" ? messages_.front().content : "";
    tell(format("{} messages from {}.", messages_.size(), path));
  }

  // The conversation goes on with the other model, which reads it anew.
  void change_model(const std::string& name) {
    if (!name.empty()) {
      ChatOptions other = options_;
      other.engine.model = name;
      auto partner = std::make_unique<Partner>(other);
      partner_ = std::move(partner);
      options_ = other;
      last_ = {};
    }
    const Model& model = partner_->engine.model();
    tell(format("{}, {} parameters, context {} tokens.", model.name(),
        human_count(static_cast<double>(model.num_parameters())), partner_->sequence.capacity()));
  }

  void answer(const std::string& message) {
    const InterruptScope interrupts;
    const Model& model = partner_->engine.model();
    messages_.push_back({"user", message});
    const int64_t capacity = partner_->sequence.capacity();
    const int64_t reserve = std::min(partner_->params.max_tokens, capacity / 4);
    if (const int64_t gone = drop_oldest(model, messages_, capacity, reserve))
      print_note(format("the context of {} tokens is full: forgot the {} oldest messages", capacity, gone));
    const auto prompt = chat_prompt(model, messages_);
    if (std::ssize(prompt) >= capacity) return refuse(std::ssize(prompt), capacity);
    const TextSink sink = [&](std::string_view piece) {
      if (!piece.empty()) print_model_text(piece, options_.raw);
      return !interrupts.pending();
    };
    last_ = generate(model, partner_->sequence, prompt, partner_->params, sink);
    messages_.push_back({"assistant", last_.text});
    ++partner_->params.seed;  // the same question later may get another answer
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
  std::unique_ptr<Partner> partner_;
  bool interactive_;
  std::unique_ptr<LineEditor> editor_;  // at a terminal
  LineReader lines_;                    // of a pipe
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
