// SPDX-License-Identifier: MIT
#include "cli/parse.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "base/text.h"
#include "cli/foreign_flags.h"
#include "cli/help.h"
#include "cli/output.h"
#include "cli/version.h"

namespace cheetah {
namespace {

// The subcommand the person got to, for whom the rest of the line was meant.
const CLI::App& innermost(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return chosen.empty() ? app : innermost(*chosen.front());
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
  if (const auto known = is_flag ? foreign_flag(bare) : std::nullopt)
    return format("unknown flag '{}': {}", shown, *known);
  const std::string near = nearest_name(bare, is_flag ? flag_names(app) : command_names(app));
  const char* kind = is_flag ? "unknown flag" : is_command ? "unknown command" : "unexpected argument";
  return format("{} '{}'{}", kind, shown, near.empty() ? "" : format(" (did you mean '{}'?)", near));
}

// The text between two marks, or after the first when there is no second to look for; "" where they are not there.
std::string between(const std::string& text, const std::string& before, const std::string& after) {
  const size_t begin = text.find(before);
  if (begin == std::string::npos) return "";
  const size_t from = begin + before.size();
  const size_t end = after.empty() ? text.size() : text.find(after, from);
  return end == std::string::npos ? "" : text.substr(from, end - from);
}

// CLI11's sentences in our words: "--rate: Value 0 not in range 0.001000 to 1000000.000000".
std::string in_our_words(const CLI::ParseError& error) {
  std::string text = error.what();
  const size_t colon = text.find(": ");
  std::string name = colon == std::string::npos ? "" : text.substr(0, colon);
  if (!name.empty() && text.find(name + ": ", colon) == colon + 2) text = text.substr(colon + 2);
  if (const std::string value = between(text, "Value ", " not in range "); !value.empty()) {
    const double low = to_number(between(text, " not in range ", " to ")).value_or(0);
    const double high = to_number(between(text, " to ", "")).value_or(0);
    return format("{}: '{}' is not a number from {:g} to {:g}", name, printable(value), low, high);
  }
  if (const std::string flag = between(text, "Could not convert: ", " = "); !flag.empty())
    return format("{}: '{}' is not a number", flag, printable(between(text, " = ", "")));
  if (const std::string value = between(text, name + ": ", " not in {"); !value.empty())
    return format("{}: '{}' is not one of {}", name, printable(value), between(text, "{", "}"));
  if (text.ends_with(" missing") && text.find(" required ") != std::string::npos)
    return format("{}: its value is missing", name);
  if (text.ends_with(" is required")) {
    std::string missing = text.substr(0, text.find(" is required"));
    if (missing.starts_with("-")) return missing + " is missing";
    std::ranges::transform(missing, missing.begin(), [](unsigned char c) { return std::toupper(c); });
    return missing + " is missing";
  }
  if (const size_t other = text.find(" excludes "); other != std::string::npos)
    return format("{} and {} exclude each other", text.substr(0, other), text.substr(other + 10));
  return text;
}

int usage_mistake(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& command = innermost(app);
  const auto left = app.remaining(true);
  if (left.empty() && command.get_require_subcommand_min() > 0) {
    std::fputs(help_page(command, help_columns()).c_str(), stderr);  // nothing asked for: show what there is
    return 2;
  }
  const std::string what = left.empty() ? in_our_words(error) : unexpected_word(command, left.front());
  print_error(format("{}; see '{} --help'", what, full_name(command)));
  return 2;
}

}  // namespace

std::string nearest_name(const std::string& word, const std::vector<std::string>& candidates) {
  std::string best;
  if (word.size() > 64) return "";  // not a slip of the fingers
  constexpr size_t kWholeWord = 5;  // so much of a name is its beginning, not a slip
  for (const std::string& name : candidates)
    if (word.size() >= kWholeWord && name.starts_with(word) && (best.empty() || name.size() < best.size()))
      best = name;
  if (!best.empty()) return best;
  int64_t best_distance = std::max<int64_t>(2, std::ssize(word) / 3) + 1;
  for (const std::string& name : candidates) {
    const int64_t distance = edit_distance(word, name);
    if (distance >= best_distance) continue;
    best_distance = distance;
    best = name;
  }
  return best;
}

namespace {

// --max_model_len is --max-model-len, as programs in Python have it.
std::string with_dashes(const std::string& word) {
  if (!word.starts_with("--")) return word;
  std::string name = word.substr(0, word.find('='));
  std::ranges::replace(name, '_', '-');
  return name + word.substr(name.size());
}

// CLI11 takes them from the back.
std::vector<std::string> words_backwards(int argc, char** argv) {
  std::vector<std::string> words;
  bool flags_end = false;
  for (int i = 1; i < argc; ++i) {
    flags_end = flags_end || std::string_view(argv[i]) == "--";
    words.push_back(flags_end ? argv[i] : with_dashes(argv[i]));
  }
  std::ranges::reverse(words);
  return words;
}

}  // namespace

std::optional<int> parse_command_line(CLI::App& app, int argc, char** argv) {
  app.set_version_flag("-V,--version", version_text, "show version, commit, compiler, SIMD targets and CUDA");
  app.require_subcommand(1);
  try {
    app.parse(words_backwards(argc, argv));
    return std::nullopt;
  } catch (const CLI::CallForVersion&) {
    print(version_text());
  } catch (const CLI::Success&) {
    print(help_page(innermost(app), help_columns()));
  } catch (const CLI::ParseError& error) {
    return usage_mistake(app, error);
  }
  flush_output();
  return 0;
}

}  // namespace cheetah
