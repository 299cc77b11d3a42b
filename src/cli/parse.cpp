#include "cli/parse.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "cli/output.h"
#include "cli/version.h"

namespace cheetah {
namespace {

// Insertions, deletions, substitutions and swaps of neighbours, the four ways fingers go wrong.
size_t edit_distance(const std::string& a, const std::string& b) {
  const size_t width = b.size() + 1;
  std::vector<size_t> cost((a.size() + 1) * width);
  const auto at = [&](size_t i, size_t j) -> size_t& { return cost[i * width + j]; };
  for (size_t i = 0; i <= a.size(); ++i)
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        at(i, j) = i + j;
        continue;
      }
      at(i, j) = std::min({at(i - 1, j) + 1, at(i, j - 1) + 1, at(i - 1, j - 1) + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        at(i, j) = std::min(at(i, j), at(i - 2, j - 2) + 1);
    }
  return cost.back();
}

// The subcommand the person got to, for whom the rest of the line was meant.
const CLI::App& innermost(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return chosen.empty() ? app : innermost(*chosen.front());
}

std::string full_name(const CLI::App& app) {
  return app.get_parent() ? full_name(*app.get_parent()) + " " + app.get_name() : app.get_name();
}

std::vector<std::string> flag_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

std::string unexpected_word(const CLI::App& app, const std::string& word) {
  const std::string shown = printable(word);
  const bool is_flag = word.size() > 1 && word[0] == '-';
  const bool is_command = !is_flag && !command_names(app).empty();
  const std::string bare = word.substr(0, word.find('='));
  const std::string near = nearest_name(bare, is_flag ? flag_names(app) : command_names(app));
  const char* kind = is_flag ? "unknown flag" : is_command ? "unknown command" : "unexpected argument";
  return format("{} '{}'{}", kind, shown, near.empty() ? "" : format(" (did you mean '{}'?)", near));
}

int usage_mistake(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& command = innermost(app);
  const auto left = app.remaining(true);
  if (left.empty() && !command.get_subcommands([](const CLI::App*) { return true; }).empty()) {
    std::fputs(command.help().c_str(), stderr);  // nothing asked for: show what there is
    return 2;
  }
  const std::string what = left.empty() ? std::string(error.what()) : unexpected_word(command, left.front());
  print_error(format("{}; see '{} --help'", what, full_name(command)));
  return 2;
}

}  // namespace

std::string nearest_name(const std::string& word, const std::vector<std::string>& candidates) {
  std::string best;
  if (word.size() > 64) return "";  // not a slip of the fingers
  size_t best_distance = std::max<size_t>(2, word.size() / 3) + 1;
  for (const std::string& name : candidates) {
    const size_t distance = edit_distance(word, name);
    if (distance >= best_distance) continue;
    best_distance = distance;
    best = name;
  }
  return best;
}

std::optional<int> parse_command_line(CLI::App& app, int argc, char** argv) {
  app.set_version_flag("--version", version_text);
  app.require_subcommand(1);
  try {
    app.parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::CallForVersion&) {
    print(version_text());
  } catch (const CLI::Success&) {
    print(app.help());
  } catch (const CLI::ParseError& error) {
    return usage_mistake(app, error);
  }
  flush_output();
  return 0;
}

}  // namespace cheetah
