// SPDX-License-Identifier: MIT
// cheetah man: manual pages, written from the same declarations as the help pages. cheetah version.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/format.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/help.h"
#include "cli/help_topics.h"
#include "cli/output.h"
#include "cli/version.h"

namespace cheetah {
namespace {

// Text of a manual page: a backslash, a quote or a dot at the line's beginning would be taken as a request.
std::string roff(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (out.empty() && (c == '.' || c == '\'')) out += "\\&";
    c == '\\' ? out += "\\e" : c == '-' ? out += "\\-" : out += c;
  }
  return out;
}

std::string page_name(const CLI::App& command) {
  std::string name = full_name(command);
  std::ranges::replace(name, ' ', '-');
  return name;
}

std::string sections(const CLI::App& command) {
  std::string out;
  std::vector<std::string> topics;
  for (const CLI::Option* option : command.get_options())
    if (const std::string topic = flag_topic(command, *option);
        std::ranges::find(topics, topic) == topics.end())
      topics.push_back(topic);
  std::ranges::stable_sort(topics, {}, [&](const std::string& topic) { return topic == "Other"; });
  for (const std::string& topic : topics) {
    std::string flags;
    for (const CLI::Option* option : command.get_options())
      if (is_shown(*option) && flag_topic(command, *option) == topic && !flag_spelling(*option).empty())
        flags += format(".TP\n\\fB{}\\fR\n{}\n", roff(flag_spelling(*option)), roff(flag_meaning(*option)));
    if (!flags.empty()) out += format(".SH {}\n{}", topic, flags);
  }
  return out;
}

std::string man_page(const CLI::App& command) {
  std::string page =
      format(".TH {} 1 \"\" \"cheetah {}\" \"User Commands\"\n.SH NAME\n{} \\- {}\n.SH SYNOPSIS\n{}\n",
          page_name(command), build_info().version, roff(page_name(command)), roff(command.get_description()),
          roff(usage_line(command)));
  const auto below = commands_of(command);
  if (!below.empty()) page += ".SH COMMANDS\n";
  for (const CLI::App* each : below)
    page += format(".TP\n\\fB{}\\fR(1)\n{}\n", roff(page_name(*each)), roff(each->get_description()));
  page += sections(command);
  const std::string footer = command.get_footer();
  if (!footer.empty()) {
    page += ".SH EXAMPLES\n.nf\n";
    for (const std::string_view line : lines_of(footer))
      if (!line.starts_with("Examples:") && !line.empty()) page += roff(trimmed(line)) + "\n";
    page += ".fi\n";
  }
  if (command.get_parent() == nullptr)
    for (const HelpTopic& topic : help_topics()) {
      page += format(".SH {}\n.nf\n", topic.title);
      for (const std::string_view line : lines_of(topic.text)) page += roff(line) + "\n";
      page += ".fi\n";
    }
  return page;
}

struct ManOptions {
  std::vector<std::string> words;
  std::string folder;
};

int run_man(const CLI::App& root, const ManOptions& options) {
  if (!options.folder.empty()) {
    std::error_code error;
    std::filesystem::create_directories(options.folder, error);
    for (const CLI::App* command : all_commands(root))
      AtomicFile(format("{}/{}.1", options.folder, page_name(*command))).write(man_page(*command));
    return 0;
  }
  std::string wanted = "cheetah";
  for (const std::string& word : options.words) wanted += " " + word;
  for (const CLI::App* command : all_commands(root))
    if (full_name(*command) == wanted) {
      print(man_page(*command));
      return 0;
    }
  throw UsageError(format("man: '{}' is not a command; 'cheetah help' lists them", printable(wanted)));
}

}  // namespace

void add_man(CLI::App& root, Action& action) {
  auto* command = root.add_subcommand("man", "Print manual pages, or write all of them to a folder");
  auto options = std::make_shared<ManOptions>();
  command->add_option("command", options->words, "the command whose page to print (default: cheetah itself)");
  command->add_option("--dir", options->folder, "write the pages of all commands to this folder");
  command->footer(
      "\nExamples:\n  cheetah man serve | man -l -\n  cheetah man --dir ~/.local/share/man/man1\n");
  command->callback([=, &root, &action] { action = [=, &root] { return run_man(root, *options); }; });
}

void add_version(CLI::App& root, Action& action) {
  auto* command = root.add_subcommand("version", "Show version, commit, compiler, SIMD targets and CUDA");
  command->footer("\nExamples:\n  cheetah version\n");
  command->callback([=, &action] {
    action = [] {
      print(version_text());
      return 0;
    };
  });
}

}  // namespace cheetah
