// SPDX-License-Identifier: MIT
// cheetah doctor --fix and --undo: the fixes of a report, one by one, each confirmed; and back.
#include <unistd.h>

#include <algorithm>
#include <iostream>

#include "base/error.h"
#include "base/format.h"
#include "cli/doctor_options.h"
#include "cli/output.h"
#include "doctor/fixes/mend.h"

namespace cheetah {
namespace {

using namespace doctor;

Mender mender_of(const DoctorOptions& options) {
  const bool live = options.root == "/";
  const std::string standard = (live ? "" : options.root) + "/var/lib/cheetah/doctor-undo.jsonl";
  return {options.root, options.journal.empty() ? standard : options.journal,
      live ? system_commands() : no_commands(options.root)};
}

enum class Reply { kYes, kNo, kQuit };

Reply ask(const std::string& question, bool yes) {
  if (yes) return Reply::kYes;
  for (;;) {
    print(question + " [y/n/q] ");
    std::string line;
    if (!std::getline(std::cin, line) || line == "q") return Reply::kQuit;
    if (line == "y" || line == "yes") return Reply::kYes;
    if (line == "n" || line == "no" || line.empty()) return Reply::kNo;
  }
}

void require_answers(const DoctorOptions& options) {
  if (!options.yes && isatty(STDIN_FILENO) == 0)
    throw UsageError("--fix and --undo ask before each step: run them in a terminal, or add --yes");
}

struct Tally {
  int done = 0, failed = 0;
  void add(const Done& result) {
    ++(result.ok ? done : failed);
    print(format("    {}{}\n", result.ok ? "done" : "not done", result.why.empty() ? "" : ": " + result.why));
  }
};

bool is_chosen(const Step& step, const DoctorOptions& options) {
  return options.lasting || step.when == When::kNow;
}

}  // namespace

int run_fix(const Report& report, const DoctorOptions& options) {
  require_answers(options);
  Mender mender = mender_of(options);
  Tally tally;
  int refused = 0;
  for (const Finding& finding : report.findings) {
    const Fix& fix = finding.fix;
    if (finding.risk <= 0 || finding.check->fix_kind != FixKind::kCommand) continue;
    print(format("{} {}\n", finding.check->id, finding.outcome.found));
    if (fix.steps.empty()) {
      ++refused;
      print(format("  not by command: {}\n", fix.refusal.empty() ? fix.advice : fix.refusal));
      continue;
    }
    for (const std::string& note : fix.notes) print(format("  note: {}\n", note));
    for (const Step& step : fix.steps) {
      if (!is_chosen(step, options)) continue;
      print(format("  {}\n", shell_line(step)));
      const Reply reply = ask("  do it?", options.yes);
      if (reply == Reply::kQuit) return tally.failed > 0 ? 1 : 0;
      if (reply == Reply::kYes) tally.add(mender.apply(std::string(finding.check->id), step));
    }
  }
  print(format(
      "{} steps done, {} failed, {} findings left to a person; 'cheetah doctor --undo' puts all back\n",
      tally.done, tally.failed, refused));
  return tally.failed > 0 ? 1 : 0;
}

int run_undo(const DoctorOptions& options) {
  require_answers(options);
  Mender mender = mender_of(options);
  std::vector<JournalEntry> entries = mender.journal(), kept;
  if (entries.empty()) {
    print("the journal is empty: nothing was changed by --fix\n");
    return 0;
  }
  Tally tally;
  bool asking = true;
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    const std::string line = undo_line(entry->step);
    print(format("{}  {}\n", entry->check, line.empty() ? "nothing is to be put back" : line));
    const Reply reply = asking ? ask("  do it?", options.yes) : Reply::kNo;
    if (reply == Reply::kQuit) asking = false;
    if (reply != Reply::kYes) {
      kept.push_back(*entry);
      continue;
    }
    const Done done = mender.undo(*entry);
    tally.add(done);
    if (!done.ok) kept.push_back(*entry);
  }
  std::reverse(kept.begin(), kept.end());
  mender.keep(kept);
  print(format(
      "{} steps put back, {} failed, {} kept in the journal\n", tally.done, tally.failed, kept.size()));
  return tally.failed > 0 ? 1 : 0;
}

}  // namespace cheetah
