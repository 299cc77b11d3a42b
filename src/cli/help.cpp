// SPDX-License-Identifier: MIT
#include "cli/help.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>

#include "base/format.h"
#include "base/terminal.h"
#include "base/text.h"
#include "cli/flag_topics.h"

namespace cheetah {
namespace {

constexpr int kFallbackColumns = 80, kLeastColumns = 40, kMostColumns = 200;
constexpr int kMostNameColumns = 26;  // a longer name has its text on the next line

std::string spaces(int count) { return std::string(static_cast<size_t>(std::max(0, count)), ' '); }

std::string upper(std::string word) {
  std::ranges::transform(word, word.begin(), [](unsigned char c) { return std::toupper(c); });
  return word;
}

std::string argument_name(const CLI::Option& option) {
  std::string name = upper(option.get_name(true));
  const bool several = option.get_items_expected_max() > 1;
  if (several) name += "...";
  return option.get_required() ? name : "[" + name + "]";
}

// "  name   text", the text wrapped beside or below its name.
std::string entry(const std::string& name, const std::string& text, int name_columns, int columns) {
  const int indent = name_columns + 4;
  const bool beside = columns_of(name) <= name_columns;
  std::string out = "  " + name;
  out += beside ? spaces(indent - 2 - columns_of(name)) : "\n" + spaces(indent);
  return out + wrapped(text, columns, indent) + "\n";
}

struct Entry {
  std::string name, text;
};

std::string section(const std::string& title, const std::vector<Entry>& entries, int columns) {
  if (entries.empty()) return "";
  int widest = 0;
  for (const Entry& each : entries)
    if (columns_of(each.name) <= kMostNameColumns) widest = std::max(widest, columns_of(each.name));
  std::string out = "\n" + title + ":\n";
  for (const Entry& each : entries) out += entry(each.name, each.text, widest, columns);
  return out;
}

std::string arguments(const CLI::App& command, int columns) {
  std::vector<Entry> entries;
  for (const CLI::Option* option : command.get_options())
    if (option->get_positional() && is_shown(*option))
      entries.push_back({upper(option->get_name(true)), flag_meaning(*option)});
  return section("Arguments", entries, columns);
}

std::string flags(const CLI::App& command, int columns) {
  std::string out;
  std::vector<std::string> topics;
  for (const CLI::Option* option : command.get_options())
    if (const std::string topic = flag_topic(command, *option);
        std::ranges::find(topics, topic) == topics.end())
      topics.push_back(topic);
  std::ranges::stable_sort(topics, {}, topic_order);
  for (const std::string& topic : topics) {
    std::vector<Entry> entries;
    for (const CLI::Option* option : command.get_options()) {
      const bool named = !option->get_lnames().empty() || !option->get_snames().empty();
      if (named && is_shown(*option) && flag_topic(command, *option) == topic)
        entries.push_back({flag_spelling(*option), flag_meaning(*option)});
    }
    out += section(topic, entries, columns);
  }
  return out;
}

std::string commands(const CLI::App& command, int columns) {
  std::vector<Entry> entries;
  for (const CLI::App* each : commands_of(command))
    entries.push_back({each->get_name(), each->get_description()});
  return section("Commands", entries, columns);
}

// An example that is wider than the page goes on after a backslash, as in a shell.
std::string example_line(std::string_view line, int columns) {
  if (columns_of(line) <= columns || !line.starts_with("  cheetah")) return fitted(line, columns);
  std::string out, open = " ";
  for (const std::string_view word : words_of(line)) {
    if (columns_of(open) + columns_of(word) + 3 > columns) {
      out += open + " \\\n";
      open = "     ";
    }
    open += " " + std::string(word);
  }
  return out + open;
}

std::string examples(const CLI::App& command, int columns) {
  const std::string footer = command.get_footer();
  std::string out;
  for (const std::string_view line : lines_of(footer)) out += example_line(line, columns) + "\n";
  return out;
}

}  // namespace

int help_columns() {
  const char* variable = std::getenv("COLUMNS");
  int columns = variable ? static_cast<int>(to_integer(variable).value_or(0)) : 0;
  if (columns <= 0) columns = terminal_columns(STDOUT_FILENO);
  return std::clamp(columns > 0 ? columns : kFallbackColumns, kLeastColumns, kMostColumns);
}

std::string full_name(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return parent ? full_name(*parent) + " " + command.get_name() : command.get_name();
}

std::vector<const CLI::App*> commands_of(const CLI::App& command) {
  return command.get_subcommands([](const CLI::App*) { return true; });
}

std::vector<const CLI::App*> all_commands(const CLI::App& root) {
  std::vector<const CLI::App*> all = {&root};
  for (const CLI::App* command : commands_of(root))
    for (const CLI::App* each : all_commands(*command)) all.push_back(each);
  return all;
}

bool is_shown(const CLI::Option& option) { return !option.get_group().empty(); }

// CLI11's word for a value is its C++ type; ours says what to write.
std::string flag_value(const CLI::Option& option) {
  if (option.get_type_size_max() == 0) return "";
  const std::string type = option.get_type_name();
  std::string base = type.substr(0, type.find_first_of(": "));
  if (const size_t open = type.find('{'); open != std::string::npos) {
    std::string choices = type.substr(open + 1, type.find('}', open) - open - 1);
    std::ranges::replace(choices, ',', '|');
    constexpr size_t kLongest = 34;
    if (choices.size() <= kLongest) return choices;
  }
  if (base == "INT" || base == "UINT" || base == "FLOAT") return "N";
  const std::string help = option.get_description();
  const auto speaks_of = [&](const char* word) { return help.find(word) != std::string::npos; };
  if (base == "TEXT" && (speaks_of("FILE") || speaks_of("file with") || speaks_of("TOML file")))
    return "FILE";
  if (base == "TEXT" && speaks_of("folder")) return "FOLDER";
  return base;
}

std::string usage_line(const CLI::App& command) {
  std::string text = full_name(command);
  const bool has_flags = std::ranges::any_of(
      command.get_options(), [](const CLI::Option* o) { return !o->get_positional() && is_shown(*o); });
  if (has_flags) text += " [FLAGS]";
  for (const CLI::Option* option : command.get_options())
    if (option->get_positional() && is_shown(*option)) text += " " + argument_name(*option);
  if (!commands_of(command).empty())
    text += command.get_require_subcommand_min() > 0 ? " COMMAND" : " [COMMAND]";
  return text;
}

std::string flag_spelling(const CLI::Option& option) {
  std::string text;
  for (const std::string& name : option.get_snames()) text += (text.empty() ? "-" : ", -") + name;
  if (!option.get_lnames().empty()) text += (text.empty() ? "--" : ", --") + option.get_lnames().front();
  if (const std::string word = flag_value(option); !word.empty()) text += " " + word;
  return text;
}

std::string flag_meaning(const CLI::Option& option) {
  std::string text = option.get_description();
  const auto& names = option.get_lnames();
  for (size_t i = 1; i < names.size(); ++i) text += (i == 1 ? "; also --" : ", --") + names[i];
  if (const std::string fallback = option.get_default_str(); !fallback.empty() && fallback != "\"\"")
    text += format(" [{}]", fallback);
  if (const std::string variable = option.get_envname(); !variable.empty())
    text += format(" (${})", variable);
  return text;
}

std::string flag_topic(const CLI::App& command, const CLI::Option& option) {
  if (option.get_lnames().empty()) return "Flags";
  return topic_of(full_name(command), option.get_lnames().front());
}

std::string help_page(const CLI::App& command, int columns) {
  std::string page =
      command.get_description().empty() ? "" : wrapped(command.get_description(), columns, 0) + "\n\n";
  page += "Usage: " + wrapped(usage_line(command), columns, 9) + "\n" + arguments(command, columns) +
          commands(command, columns) + flags(command, columns) + examples(command, columns);
  if (command.get_parent() == nullptr)
    page += "\n" +
            wrapped(
                "'cheetah help COMMAND' shows a command, 'cheetah help --search WORD' finds flags and "
                "commands, 'cheetah help models' and other topics explain.",
                columns, 0) +
            "\n";
  return page;
}

}  // namespace cheetah
