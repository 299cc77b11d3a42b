// SPDX-License-Identifier: MIT
#pragma once
// Applies the steps of a fix one by one, writes down beforehand what undoes each, and undoes them.
#include <functional>
#include <string>
#include <vector>

#include "doctor/fixes/fix.h"

namespace cheetah::doctor {

// One line of the journal: a step that was begun, with the state that it found.
struct JournalEntry {
  std::string check;
  Step step;           // step.was: the bytes that were found when it was applied
  std::string became;  // what the kernel made of the value; "" when it took it as written
};

struct Done {
  bool ok = false;
  std::string why;  // one sentence when not ok; a remark otherwise, or ""
};

// Runs a command; gives its exit code and what it said.
using CommandRunner = std::function<std::pair<int, std::string>(const std::vector<std::string>&)>;
CommandRunner system_commands();
// Below another root no command may act on this machine.
CommandRunner no_commands(const std::string& root);

class Mender {
 public:
  Mender(std::string root, std::string journal, CommandRunner run);

  // Changes nothing when the machine is no longer as the step expects it. Needs the journal: without it there
  // is no change.
  Done apply(const std::string& check, const Step& step);

  // Throws Error when the journal cannot be understood.
  std::vector<JournalEntry> journal() const;
  Done undo(const JournalEntry& entry);
  // Keeps the entries that could not be undone; an empty journal is removed.
  void keep(const std::vector<JournalEntry>& entries);

 private:
  Done write(
      const std::string& path, const std::string& expected, const std::string& text, std::string& became);
  Done make(const std::string& path, const std::string& text);
  Done run(const std::vector<std::string>& command);
  std::string root_, journal_;
  CommandRunner run_;
};

std::string journal_line(const JournalEntry& entry);
std::vector<JournalEntry> parse_journal(std::string_view text, const std::string& what);

}  // namespace cheetah::doctor
