// SPDX-License-Identifier: MIT
// cheetah help: a command's page, a topic, or a search over all pages.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "base/format.h"
#include "base/terminal.h"
#include "cli/command.h"
#include "cli/foreign_flags.h"
#include "cli/help.h"
#include "cli/help_topics.h"
#include "cli/output.h"
#include "cli/parse.h"

namespace cheetah {
namespace {

constexpr const char* kExamples = R"(
Examples:
  cheetah help bench serve
  cheetah help models
  cheetah help --search timeout
)";

struct HelpOptions {
  std::vector<std::string> words;
  std::string search;
};

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

// Lines of every page that have the word, each with its command.
std::string search(const CLI::App& root, const std::string& word, int columns) {
  const std::string wanted = lower(word);
  std::string out;
  const auto add = [&](const std::string& name, const std::string& text) {
    if (lower(name + " " + text).find(wanted) == std::string::npos) return;
    out += name + "\n" + "    " + wrapped(text, columns, 4) + "\n";
  };
  for (const CLI::App* command : all_commands(root)) {
    add(full_name(*command), command->get_description());
    for (const CLI::Option* option : command->get_options())
      if (is_shown(*option) && !option->get_lnames().empty() && option->get_lnames().front() != "help")
        add(full_name(*command) + " " + flag_spelling(*option), flag_meaning(*option));
  }
  for (const HelpTopic& topic : help_topics()) add(format("cheetah help {}", topic.name), topic.title);
  if (const auto known = foreign_flag("--" + word)) out += format("--{}: {}\n", word, *known);
  return out;
}

const CLI::App& named_command(const CLI::App& root, const std::vector<std::string>& words) {
  const CLI::App* at = &root;
  for (const std::string& word : words) {
    const auto below = commands_of(*at);
    const auto found = std::ranges::find(below, word, [](const CLI::App* each) { return each->get_name(); });
    if (found != below.end()) {
      at = *found;
      continue;
    }
    std::vector<std::string> names;
    for (const CLI::App* each : below) names.push_back(each->get_name());
    if (at == &root)
      for (const HelpTopic& topic : help_topics()) names.emplace_back(topic.name);
    const std::string near = nearest_name(word, names);
    throw UsageError(
        format("help: '{}' is not a command or topic of {}{}; 'cheetah help --search {}' looks everywhere",
            printable(word), full_name(*at), near.empty() ? "" : format(" (did you mean '{}'?)", near),
            printable(word)));
  }
  return *at;
}

int run_help(const CLI::App& root, const HelpOptions& options) {
  const int columns = help_columns();
  if (!options.search.empty()) {
    const std::string found = search(root, options.search, columns);
    if (found.empty()) throw Error(format("help: no page has '{}'", printable(options.search)));
    print(found);
    return 0;
  }
  if (options.words.size() == 1)
    for (const HelpTopic& topic : help_topics())
      if (options.words.front() == topic.name) {
        print(topic_page(topic, columns));
        return 0;
      }
  print(help_page(named_command(root, options.words), columns));
  return 0;
}

}  // namespace

void add_help(CLI::App& root, Action& action) {
  auto* command =
      root.add_subcommand("help", "Show the page of a command, explain a topic, search all pages");
  auto options = std::make_shared<HelpOptions>();
  command->add_option("topic", options->words,
      format("a command (serve, bench serve) or a topic: {}", fmt::join(topic_names(), ", ")));
  command->add_option("-s,--search", options->search, "show flags and commands whose text has this word");
  command->footer(kExamples);
  command->callback([=, &root, &action] { action = [=, &root] { return run_help(root, *options); }; });
}

}  // namespace cheetah
