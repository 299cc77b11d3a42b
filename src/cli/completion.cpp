// SPDX-License-Identifier: MIT
// cheetah completion: what bash, zsh and fish need to complete commands, flags and their values. Written from the same
// declarations as the help pages.
#include <CLI/CLI.hpp>

#include "base/error.h"
#include "base/format.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/help.h"
#include "cli/output.h"

namespace cheetah {
namespace {

constexpr const char* kExamples = R"(
Examples:
  source <(cheetah completion bash)
  cheetah completion zsh > ~/.zfunc/_cheetah
  cheetah completion fish > ~/.config/fish/completions/cheetah.fish
)";

struct FlagWords {
  std::vector<std::string> names;    // "-m", "--model"
  std::vector<std::string> choices;  // of its value; empty: any
  bool takes_value = false;
  std::string meaning;  // one line
};

struct CommandWords {
  std::string path;                                           // "cheetah bench serve"
  std::vector<std::pair<std::string, std::string>> commands;  // name, meaning
  std::vector<FlagWords> flags;
};

std::string first_sentence(std::string text) {
  for (const std::string_view end : {"; ", ": ", " ("})
    if (const size_t at = text.find(end); at != std::string::npos && at > 12) text.resize(at);
  return text;
}

FlagWords words_of_flag(const CLI::Option& option) {
  FlagWords flag;
  for (const std::string& name : option.get_snames()) flag.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) flag.names.push_back("--" + name);
  const std::string value = flag_value(option);
  flag.takes_value = !value.empty();
  if (value.find('|') != std::string::npos)
    for (const std::string_view choice : split(value, '|')) flag.choices.emplace_back(choice);
  flag.meaning = first_sentence(option.get_description());
  return flag;
}

std::vector<CommandWords> words_of_all(const CLI::App& root) {
  std::vector<CommandWords> all;
  for (const CLI::App* command : all_commands(root)) {
    CommandWords words{.path = full_name(*command), .commands = {}, .flags = {}};
    for (const CLI::App* below : commands_of(*command))
      words.commands.emplace_back(below->get_name(), below->get_description());
    for (const CLI::Option* option : command->get_options())
      if (is_shown(*option) && (!option->get_lnames().empty() || !option->get_snames().empty()))
        words.flags.push_back(words_of_flag(*option));
    all.push_back(std::move(words));
  }
  return all;
}

// Between single quotes of a shell.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) c == '\'' ? out += "'\\''" : out += c;
  return out + "'";
}

// fish takes \' inside single quotes.
std::string fish_quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

// The names of a command that lead to another one: "cheetah bench" with "serve".
std::string path_cases(const std::vector<CommandWords>& all) {
  std::string out;
  for (const CommandWords& command : all)
    if (command.path != "cheetah") out += format("{}{}", out.empty() ? "" : "|", quoted(command.path));
  return out;
}

std::string bash_script(const std::vector<CommandWords>& all) {
  std::string values, words;
  for (const CommandWords& command : all) {
    std::string names, flags;
    for (const auto& [name, meaning] : command.commands) names += name + " ";
    for (const FlagWords& flag : command.flags) {
      for (const std::string& name : flag.names) flags += name + " ";
      if (!flag.takes_value) continue;
      std::string cases;
      for (const std::string& name : flag.names)
        cases += (cases.empty() ? "" : "|") + quoted(command.path + " " + name);
      values += flag.choices.empty()
                    ? format("    {}) COMPREPLY=($(compgen -f -- \"$cur\")); return ;;\n", cases)
                    : format("    {}) COMPREPLY=($(compgen -W '{}' -- \"$cur\")); return ;;\n", cases,
                          fmt::join(flag.choices, " "));
    }
    words += format("    {}) commands='{}' flags='{}' ;;\n", quoted(command.path), names, flags);
  }
  return format(R"(# bash completion of cheetah, written by 'cheetah completion bash'
_cheetah() {{
  local cur="${{COMP_WORDS[COMP_CWORD]}}" prev="${{COMP_WORDS[COMP_CWORD-1]}}" path=cheetah commands= flags= i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$path ${{COMP_WORDS[i]}}" in
      {}) path="$path ${{COMP_WORDS[i]}}" ;;
    esac
  done
  COMPREPLY=()
  case "$path $prev" in
{}  esac
  case "$path" in
{}  esac
  if [[ $cur == -* ]]; then
    COMPREPLY=($(compgen -W "$flags" -- "$cur"))
  else
    COMPREPLY=($(compgen -W "$commands" -- "$cur") $(compgen -f -- "$cur"))
  fi
}}
complete -o filenames -F _cheetah cheetah
)",
      path_cases(all), values, words);
}

std::string zsh_script(const std::vector<CommandWords>& all) {
  const auto described = [](const std::string& name, const std::string& meaning) {
    std::string escaped;
    for (const char c : name) escaped += c == ':' ? std::string("\\:") : std::string(1, c);
    return quoted(escaped + ":" + meaning) + " ";
  };
  std::string values, words;
  for (const CommandWords& command : all) {
    std::string names, flags;
    for (const auto& [name, meaning] : command.commands) names += described(name, meaning);
    for (const FlagWords& flag : command.flags) {
      for (const std::string& name : flag.names) flags += described(name, flag.meaning);
      if (!flag.takes_value) continue;
      std::string cases;
      for (const std::string& name : flag.names)
        cases += (cases.empty() ? "" : "|") + quoted(command.path + " " + name);
      values += flag.choices.empty()
                    ? format("    ({}) _files; return ;;\n", cases)
                    : format("    ({}) compadd -- {}; return ;;\n", cases, fmt::join(flag.choices, " "));
    }
    words += format("    ({}) commands=({}) flags=({}) ;;\n", quoted(command.path), names, flags);
  }
  return format(R"(#compdef cheetah
# zsh completion of cheetah, written by 'cheetah completion zsh'
_cheetah() {{
  local at=cheetah word
  local -a commands flags
  for word in "${{(@)words[2,CURRENT-1]}}"; do
    case "$at $word" in
      ({}) at="$at $word" ;;
    esac
  done
  case "$at ${{words[CURRENT-1]}}" in
{}  esac
  case "$at" in
{}  esac
  if [[ $PREFIX == -* ]]; then
    _describe flag flags
  else
    (( $#commands )) && _describe command commands
    _files
  fi
}}
if [[ $funcstack[1] == _cheetah ]]; then _cheetah "$@"; else compdef _cheetah cheetah; fi
)",
      path_cases(all), values, words);
}

std::string fish_script(const std::vector<CommandWords>& all) {
  std::string paths, out;
  for (const CommandWords& command : all)
    if (command.path != "cheetah") paths += " " + fish_quoted(command.path);
  out = format(R"(# fish completion of cheetah, written by 'cheetah completion fish'
function __cheetah_at
    set -l at cheetah
    for word in (commandline -opc)[2..-1]
        contains -- "$at $word"{} ; and set at "$at $word"
    end
    test "$at" = "$argv"
end
)",
      paths);
  for (const CommandWords& command : all) {
    const std::string begin = format("complete -c cheetah -n \"__cheetah_at {}\"", command.path);
    for (const auto& [name, meaning] : command.commands)
      out += format("{} -f -a {} -d {}\n", begin, name, fish_quoted(meaning));
    for (const FlagWords& flag : command.flags) {
      std::string line = begin;
      for (const std::string& name : flag.names)
        line += name.starts_with("--") ? " -l " + name.substr(2)
                : name.size() == 2     ? " -s " + name.substr(1)
                                       : " -o " + name.substr(1);
      if (flag.takes_value) line += " -r";
      if (!flag.choices.empty()) line += format(" -f -a '{}'", fmt::join(flag.choices, " "));
      out += format("{} -d {}\n", line, fish_quoted(flag.meaning));
    }
  }
  return out;
}

int run_completion(const CLI::App& root, const std::string& shell) {
  const auto all = words_of_all(root);
  print(shell == "bash" ? bash_script(all) : shell == "zsh" ? zsh_script(all) : fish_script(all));
  return 0;
}

}  // namespace

void add_completion(CLI::App& root, Action& action) {
  auto* command =
      root.add_subcommand("completion", "Print what a shell needs to complete commands and flags");
  auto shell = std::make_shared<std::string>();
  command->add_option("shell", *shell, "bash, zsh or fish")
      ->check(CLI::IsMember({"bash", "zsh", "fish"}))
      ->required();
  command->footer(kExamples);
  command->callback([=, &root, &action] { action = [=, &root] { return run_completion(root, *shell); }; });
}

}  // namespace cheetah
