// SPDX-License-Identifier: MIT
#include "cli/settings.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "base/table.h"
#include "cli/numbers.h"
#include "cli/parse.h"
#include "cli/settings_file.h"

namespace cheetah {
namespace {

bool parse_switch(const std::string& where, const std::string& text) {
  std::string word = text;
  std::ranges::transform(word, word.begin(), [](unsigned char c) { return std::tolower(c); });
  if (word == "1" || word == "true" || word == "on" || word == "yes") return true;
  if (word == "0" || word == "false" || word == "off" || word == "no") return false;
  throw UsageError(format("{}: '{}' is neither true nor false", where, printable(text)));
}

double parse_number(const std::string& where, const std::string& text, double low, double high) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !(value >= low && value <= high))
    throw UsageError(format("{}: '{}' is not a number from {} to {}", where, printable(text), low, high));
  return value;
}

// The shortest form that parse_bytes reads back: 16777216 is 16MiB.
std::string size_text(int64_t bytes) {
  for (const auto& [unit, factor] :
      {std::pair("GiB", int64_t{1} << 30), {"MiB", int64_t{1} << 20}, {"KiB", int64_t{1} << 10}})
    if (bytes % factor == 0) return format("{}{}", bytes / factor, unit);
  return std::to_string(bytes);
}

// As a TOML value that reads back as the same setting; "" is one that is not set.
std::string toml_text(const Settings::Entry& entry, const std::string& value) {
  const bool plain = entry.is_switch
                         ? value == "true" || value == "false"
                         : entry.value == "N" && value.find_first_not_of("0123456789.") == std::string::npos;
  return plain && !value.empty() ? value : dump_json(Json(value));
}

}  // namespace

std::vector<std::string> split_list(const std::string& text) {
  std::vector<std::string> items;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    if (end > begin) items.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return items;
}

std::string variable_name(const std::string& setting) {
  std::string name = "CHEETAH_";
  for (const char c : setting)
    name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

double parse_seconds(const std::string& where, const std::string& text, double low, double high) {
  const size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  const std::string unit = text.substr(digits);
  const double factor = unit.empty() || unit == "s" ? 1
                        : unit == "ms"              ? 1e-3
                        : unit == "m"               ? 60
                        : unit == "h"               ? 3600
                                                    : NAN;
  char* end = nullptr;
  const std::string number = text.substr(0, digits);
  const double value = std::strtod(number.c_str(), &end) * factor;
  if (number.empty() || *end != '\0' || !(value >= low && value <= high))
    throw UsageError(format("{}: '{}' is not a time from {} s to {} s, such as 30, 500ms or 2m", where,
        printable(text), low, high));
  return value;
}

void Settings::add(Entry entry) { entries_.push_back(std::move(entry)); }

void Settings::add_count(const std::string& name, int64_t& target, int64_t low, int64_t high,
    const std::string& help, const std::string& aliases) {
  add({name, std::to_string(target), help,
      [&target, low, high](const std::string& where, const std::string& text) {
        target = parse_count(where, text, low, high);
      },
      false, aliases, "N"});
}

void Settings::add_int(const std::string& name, int& target, int low, int high, const std::string& help,
    const std::string& aliases) {
  add({name, std::to_string(target), help,
      [&target, low, high](const std::string& where, const std::string& text) {
        target = static_cast<int>(parse_count(where, text, low, high));
      },
      false, aliases, "N"});
}

void Settings::add_bytes(const std::string& name, int64_t& target, const std::string& help) {
  add({name, target == 0 ? "" : size_text(target), help,
      [&target](const std::string& where, const std::string& text) { target = parse_bytes(where, text); },
      false, "", "SIZE"});
}

void Settings::add_text(const std::string& name, std::string& target, const std::string& help) {
  add({name, target, help, [&target](const std::string&, const std::string& text) { target = text; }});
}

void Settings::add_choice(const std::string& name, std::string& target,
    const std::vector<std::string>& choices, const std::string& help) {
  add({name, target, help,
      [&target, choices](const std::string& where, const std::string& text) {
        if (std::ranges::find(choices, text) == choices.end())
          throw UsageError(
              format("{}: '{}' is not one of {}", where, printable(text), fmt::join(choices, ", ")));
        target = text;
      },
      false, "", format("{}", fmt::join(choices, "|"))});
}

void Settings::add_list(const std::string& name, std::vector<std::string>& target, const std::string& help,
    const std::string& aliases) {
  add({name, format("{}", fmt::join(target, ",")), help + ", separated by commas",
      [&target](const std::string&, const std::string& text) { target = split_list(text); }, false, aliases,
      "LIST"});
}

void Settings::add_switch(const std::string& name, bool& target, const std::string& help) {
  add({name, target ? "true" : "false", help,
      [&target](const std::string& where, const std::string& text) { target = parse_switch(where, text); },
      true});
}

void Settings::add_number(
    const std::string& name, double& target, double low, double high, const std::string& help) {
  add({name, format("{}", target), help,
      [&target, low, high](const std::string& where, const std::string& text) {
        target = parse_number(where, text, low, high);
      },
      false, "", "N"});
}

void Settings::add_seconds(
    const std::string& name, double& target, double low, double high, const std::string& help) {
  add({name, format("{:.15g}s", target), help,  // without an exponent: it is read again
      [&target, low, high](const std::string& where, const std::string& text) {
        target = parse_seconds(where, text, low, high);
      },
      false, "", "TIME"});
}

void Settings::add_flags(CLI::App& command) {
  for (const Entry& entry : entries_) {
    Flag& flag = flags_[entry.name];
    const std::string spelling = "--" + entry.name + (entry.aliases.empty() ? "" : "," + entry.aliases);
    const auto take = [&flag](const std::string& text) {
      flag.text = text;
      flag.given = true;
    };
    const bool shown =
        !entry.is_switch && !entry.fallback.empty() && entry.fallback != "0" && entry.fallback != "0s";
    const std::string help = entry.help + (shown ? format(" [{}]", entry.fallback) : "");
    if (entry.is_switch)
      command.add_flag_callback(
          spelling, [take] { take("true"); }, help);
    else if (entry.repeats)
      command
          .add_option_function<std::vector<std::string>>(
              spelling,
              [take](const std::vector<std::string>& all) { take(format("{}", fmt::join(all, ","))); }, help)
          ->type_name(entry.value);
    else
      command.add_option_function<std::string>(spelling, take, help)->type_name(entry.value);
  }
}

std::map<std::string, std::string> Settings::read_file(const std::string& path) const {
  std::vector<std::string> names;
  for (const Entry& entry : entries_) names.push_back(entry.name);
  std::map<std::string, std::string> values;
  for (const FileSetting& found : read_settings_file(path)) {
    if (std::ranges::find(names, found.name) == names.end()) {
      const std::string near = nearest_name(found.name, names);
      throw UsageError(format("{}: unknown key '{}'{}", found.where, printable(found.name),
          near.empty() ? "" : format(" (did you mean '{}'?)", near)));
    }
    values[found.name] = found.text;
  }
  return values;
}

void Settings::resolve(const std::string& file, const Environment& environment) {
  const auto from_file = file.empty() ? std::map<std::string, std::string>() : read_file(file);
  for (const Entry& entry : entries_) {
    const Flag& flag = flags_[entry.name];
    const std::string variable = variable_name(entry.name);
    const char* const in_environment = environment(variable.c_str());
    std::string text = entry.fallback, source = "default";
    if (flag.given) {
      text = flag.text, source = "--" + entry.name;
    } else if (in_environment && *in_environment) {
      text = in_environment, source = variable;
    } else if (const auto found = from_file.find(entry.name);
               found != from_file.end() && !found->second.empty()) {
      text = found->second, source = format("{}: {}", file, entry.name);
    }
    if (source != "default") entry.read(source, text);
    resolved_[entry.name] = {text, source};
  }
}

bool Settings::given(const std::string& name) const { return resolved_.at(name).second != "default"; }

std::string Settings::print() const {
  std::string out;
  for (const Entry& entry : entries_) {
    const auto& [value, source] = resolved_.at(entry.name);
    const bool unset = source == "default" && value == "0";
    out += format(
        "{:<28} = {:<24} # {}\n", entry.name, toml_text(entry, unset ? "" : value), printable(source, 300));
  }
  return out;
}

}  // namespace cheetah
