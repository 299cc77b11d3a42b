// SPDX-License-Identifier: MIT
// The fixes as a shell script: each step checks that the machine is still as it was read.
#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "doctor/report.h"

namespace cheetah::doctor {
namespace {

constexpr const char* kHeader =
    R"plan(#   sh plan.sh apply     changes the running system, until the next boot
#   sh plan.sh persist   makes the same settings last (sysctl.d, udev, tmpfiles.d, units)
#   sh plan.sh undo      puts back what was found, of both
# ROOT=DIR in front of 'sh' acts on the files of a tree instead of this machine, and runs no command.
set -eu
ROOT=${ROOT:-}
failed=0

now_in() { sed -n '1{s/.*\[\(.*\)\].*/\1/;p;q;}' "$ROOT$1"; }
is_kernel_file() { case $(stat -f -c %T "$ROOT$1") in sysfs|proc|cgroup*) ;; *) return 1 ;; esac; }
one_line() { tr -s ' \t' ' '; }
# put NEW FOUND TEXT FILE...: writes NEW where FOUND still stands; a plain file gets TEXT.
put() {
  new=$1 found=$2 text=$3; shift 3
  for file; do
    if [ ! -e "$ROOT$file" ]; then echo "$file: there is no such file" >&2; failed=1; continue; fi
    if [ "$(now_in "$file" | one_line)" = "$(printf '%s\n' "$new" | one_line)" ]; then continue; fi
    if [ "$(now_in "$file" | one_line)" != "$(printf '%s\n' "$found" | one_line)" ]; then
      echo "$file: it no longer holds '$found': left alone" >&2; failed=1; continue
    fi
    if is_kernel_file "$file"; then echo "$new" > "$ROOT$file" || failed=1
    else printf %s "$text" > "$ROOT$file" || failed=1; fi
  done
}
make_file() {
  if [ -e "$ROOT$1" ]; then echo "$1: there is one already: left alone" >&2; failed=1; return; fi
  mkdir -p "$(dirname "$ROOT$1")" && printf %s "$2" > "$ROOT$1" || failed=1
}
remove_file() {
  if [ -e "$ROOT$1" ] && [ "$(cat "$ROOT$1"; echo .)" = "$2." ]; then rm "$ROOT$1"; fi
}
run() { if [ -n "$ROOT" ]; then echo "not run below a root: $*"; else "$@" || failed=1; fi; }
)plan";

std::string commented(std::string_view text) { return "# " + printable(text, 2000) + "\n"; }

bool same_change(const Step& a, const Step& b) {
  return a.kind == Step::Kind::kWrite && b.kind == a.kind && a.when == b.when && a.text == b.text &&
         a.was == b.was;
}

std::string always_quoted(std::string_view word) {
  std::string text = "'";
  for (const char c : word) {
    if (c == '\'')
      text += "'\\''";
    else
      text += c;
  }
  return text + "'";
}

std::string put_line(const Step& step, bool undo) {
  const std::string value = setting_in(step.text), found = setting_in(step.was);
  return format("put {} {} {}", always_quoted(undo ? found : value), always_quoted(undo ? value : found),
      always_quoted(undo ? step.was : step.text));
}

std::string script_line(const Step& step, bool undo) {
  if (step.kind == Step::Kind::kCreate)
    return format("{} /{} {}", undo ? "remove_file" : "make_file", step.path, always_quoted(step.text));
  const auto& command = undo ? step.undo : step.command;
  std::string line = "run";
  for (const std::string& word : command) line += " " + quoted(word);
  return command.empty() ? "# nothing is to be put back" : line;
}

// Steps that write the same into many files become one line.
std::string lines_of_steps(const std::vector<Step>& steps, bool undo) {
  std::string text;
  for (size_t i = 0; i < steps.size();) {
    size_t end = i + 1;
    if (steps[i].kind != Step::Kind::kWrite) {
      text += "  " + script_line(steps[i], undo) + "\n";
    } else {
      while (end < steps.size() && same_change(steps[i], steps[end])) ++end;
      text += "  " + put_line(steps[i], undo);
      for (size_t at = i; at < end; ++at) text += (end - i > 1 ? " \\\n    /" : " /") + steps[at].path;
      text += "\n";
    }
    i = end;
  }
  return text;
}

std::vector<Step> chosen_steps(const Fix& fix, When when) {
  std::vector<Step> steps;
  for (const Step& step : fix.steps)
    if (step.when == when) steps.push_back(step);
  return steps;
}

std::string title_of(const Finding& finding) {
  return format("{}: {}", finding.check->id, finding.outcome.found);
}

std::string function_of(const Report& report, When when, bool undo) {
  std::vector<const Finding*> findings;
  for (const Finding& finding : report.findings)
    if (finding.risk > 0) findings.push_back(&finding);
  if (undo) std::reverse(findings.begin(), findings.end());
  std::string body;
  for (const Finding* finding : findings) {
    auto steps = chosen_steps(finding->fix, when);
    if (undo) std::reverse(steps.begin(), steps.end());
    if (steps.empty()) continue;
    body += "  " + commented(title_of(*finding));
    if (!undo)
      for (const std::string& note : finding->fix.notes) body += "  " + commented("  note: " + note);
    body += lines_of_steps(steps, undo);
  }
  return body + "  :\n";
}

void add_section(std::string& script, const Report& report, FixKind kind, std::string_view title) {
  std::string section;
  for (const Finding& finding : report.findings)
    if (finding.risk > 0 && finding.fix.steps.empty() && finding.fix.refusal.empty() &&
        finding.check->fix_kind == kind)
      section += commented(format("{}: {}", title_of(finding), finding.fix.advice));
  if (!section.empty()) script += format("\n# {}\n{}", title, section);
}

void add_refusals(std::string& script, const Report& report) {
  std::string section;
  for (const Finding& finding : report.findings)
    if (finding.risk > 0 && !finding.fix.refusal.empty())
      section += commented(format("{}: {}", title_of(finding), finding.fix.refusal));
  if (!section.empty()) script += "\n# Not done by a script:\n" + section;
}

}  // namespace

std::string fix_plan(const Report& report) {
  std::string script = "#!/bin/sh\n";
  script += commented(
      "A plan to fix what 'cheetah doctor' found on " + report.subject + ". Read it before you run it:");
  script += kHeader;
  script += "\napply() {\n" + function_of(report, When::kNow, false) + "}\n\npersist() {\n" +
            function_of(report, When::kLasting, false) + "}\n\nundo() {\n" +
            function_of(report, When::kLasting, true) + function_of(report, When::kNow, true) + "}\n";
  add_refusals(script, report);
  add_section(script, report, FixKind::kCommand, "By hand:");
  add_section(script, report, FixKind::kBoot, "On the kernel's command line, after a reboot:");
  add_section(script, report, FixKind::kFirmware, "In the firmware, or with a screwdriver:");
  add_section(script, report, FixKind::kSetting, "In the job's, container's or engine's settings:");
  add_section(script, report, FixKind::kAdvice, "To decide:");
  script +=
      "\ncase \"${1:-}\" in\n  apply) apply ;;\n  persist) persist ;;\n  undo) undo ;;\n"
      "  *) echo \"usage: $0 apply|persist|undo\" >&2; exit 2 ;;\nesac\nexit $failed\n";
  return script;
}

}  // namespace cheetah::doctor
