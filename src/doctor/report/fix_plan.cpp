#include <algorithm>

#include "base/format.h"
#include "doctor/report.h"

namespace cheetah::doctor {
namespace {

// Names come from the machine, perhaps from a hostile one: what is not plainly a word never reaches a shell.
bool is_plain(std::string_view word, bool blanks) {
  return !word.empty() && word.size() < 256 && word[0] != '-' &&
         std::all_of(word.begin(), word.end(), [&](unsigned char c) {
           return std::isalnum(c) != 0 || c == '_' || c == '.' || c == ':' || c == '/' || c == '@' ||
                  c == '-' || c == ',' || (blanks && c == ' ');
         });
}

std::string replaced(std::string_view pattern, std::string_view mark, std::string_view by) {
  std::string text(pattern);
  for (size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + by.size()))
    text.replace(at, mark.size(), by);
  return text;
}

std::string commented(std::string_view text) {
  std::string safe;
  for (const char c : text) safe += c == '\n' || c == '\r' ? ' ' : c;
  return "# " + safe + "\n";
}

void add_section(std::string& script, const Report& report, FixKind kind, std::string_view title) {
  std::string section;
  for (const Finding& finding : report.findings)
    if (finding.risk > 0 && finding.check->fix_kind == kind)
      section += commented(format("{} {}: {}", finding.check->id, finding.check->title, finding.check->fix));
  if (!section.empty()) script += format("\n# {}\n{}", title, section);
}

std::string function_of(const Report& report, bool undo) {
  std::string body;
  for (const Finding& finding : report.findings) {
    if (finding.risk <= 0 || finding.check->fix_kind != FixKind::kCommand) continue;
    const auto commands = commands_of(undo ? finding.check->undo : finding.check->fix, finding.outcome);
    body +=
        "  " + commented(format("{} {}: {}", finding.check->id, finding.check->title, finding.outcome.found));
    for (const std::string& command : commands) body += "  " + command + "\n";
    if (commands.empty())
      body += undo ? "  # nothing to undo\n" : "  # no command: a name here is not safe for a shell\n";
  }
  return body + "  :\n";
}

}  // namespace

std::vector<std::string> commands_of(std::string_view pattern, const Outcome& outcome) {
  if (pattern.empty()) return {};
  const bool needs_name = contains(pattern, "{it}"), needs_was = contains(pattern, "{was}");
  if (!needs_name && !needs_was) return {std::string(pattern)};
  std::vector<std::string> commands;
  for (const Subject& subject : outcome.subjects) {
    if (needs_name && !is_plain(subject.name, false)) continue;
    if (needs_was && !is_plain(subject.was, true)) continue;
    commands.push_back(replaced(replaced(pattern, "{it}", subject.name), "{was}", subject.was));
  }
  return commands;
}

std::string fix_plan(const Report& report) {
  std::string script = "#!/bin/sh\n";
  script += commented("A plan to mend what 'cheetah doctor' found on " + report.subject +
                      ". Read it before you run it:");
  script +=
      "#   sh plan.sh apply   changes the running system, until the next boot\n#   sh plan.sh undo    puts "
      "back what was found\nset -eu\n";
  script +=
      "\napply() {\n" + function_of(report, false) + "}\n\nundo() {\n" + function_of(report, true) + "}\n";
  add_section(script, report, FixKind::kBoot, "On the kernel's command line, after a reboot:");
  add_section(script, report, FixKind::kFirmware, "In the firmware, or with a screwdriver:");
  add_section(script, report, FixKind::kSetting, "In the job's, container's or engine's settings:");
  add_section(script, report, FixKind::kAdvice, "To decide:");
  script +=
      "\ncase \"${1:-}\" in\n  apply) apply ;;\n  undo) undo ;;\n  *) echo \"usage: $0 apply|undo\" >&2; "
      "exit 2 ;;\nesac\n";
  return script;
}

}  // namespace cheetah::doctor
