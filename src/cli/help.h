// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace cheetah {

// Columns that help and reports may take: $COLUMNS, the terminal's, or 80; at least 40, at most 200.
int help_columns();

// The page of one command: usage, what it does, arguments and flags by topic, commands, examples.
std::string help_page(const CLI::App& command, int columns);

// "cheetah bench serve".
std::string full_name(const CLI::App& command);
std::vector<const CLI::App*> commands_of(const CLI::App& command);
// Every command below and itself.
std::vector<const CLI::App*> all_commands(const CLI::App& root);

// "-m, --model NAME" and what it means with its default and variable, as the page shows them.
std::string flag_spelling(const CLI::Option& option);
std::string flag_meaning(const CLI::Option& option);
// What to write as its value: N, FILE, auto|cuda|cpu; "" for a switch.
std::string flag_value(const CLI::Option& option);
std::string usage_line(const CLI::App& command);
bool is_shown(const CLI::Option& option);

// The heading under which a flag stands.
std::string flag_topic(const CLI::App& command, const CLI::Option& option);

}  // namespace cheetah
