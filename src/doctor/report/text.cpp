// SPDX-License-Identifier: MIT
#include "base/error.h"
#include "base/format.h"
#include "doctor/report.h"

namespace cheetah::doctor {
namespace {

std::string painted(std::string_view text, std::string_view code, bool colour) {
  return colour ? format("\033[{}m{}\033[0m", code, text) : std::string(text);
}

std::string mark(Status status, bool colour) {
  switch (status) {
    case Status::kFail:
      return painted("FAIL", "1;31", colour);
    case Status::kWarn:
      return painted("WARN", "1;33", colour);
    case Status::kInfo:
      return painted("info", "36", colour);
    case Status::kUnknown:
      return painted("  ? ", "35", colour);
    case Status::kPass:
      return painted(" ok ", "32", colour);
    case Status::kNotApplicable:
      break;
  }
  return painted("  - ", "2", colour);
}

bool is_trouble(const Finding& finding) {
  return finding.status == Status::kFail || finding.status == Status::kWarn;
}

std::string evidence_line(const Outcome& outcome) {
  std::string line;
  for (const Evidence& evidence : outcome.evidence) {
    if (evidence.source.empty() || line.size() > 240) continue;
    line += format("{}{}", line.empty() ? "" : "; ", printable(evidence.source, 200));
    if (evidence.value != "read")  // what has no short form: the finding says what it holds
      line += " = " + printable(evidence.value, 100);
  }
  return line;
}

constexpr int kMaxStepLines = 4;

std::string step_lines(const Fix& fix, When when, std::string_view label) {
  std::string text;
  int lines = 0, more = 0;
  for (const Step& step : fix.steps) {
    if (step.when != when) continue;
    if (++lines > kMaxStepLines)
      ++more;
    else
      text += format("       {}  {}\n", text.empty() ? label : "      ", shell_line(step));
  }
  if (more > 0) text += format("               … and {} more (cheetah doctor fix-plan has all)\n", more);
  return text;
}

std::string fix_lines(const Fix& fix) {
  std::string text = step_lines(fix, When::kNow, "now   ") + step_lines(fix, When::kLasting, "lasts ");
  if (text.empty()) text = format("       fix     {}\n", fix.advice);
  if (!fix.refusal.empty()) text = format("       fix     not by command: {}\n", fix.refusal);
  for (const std::string& note : fix.notes) text += format("       note    {}\n", note);
  return text;
}

std::string in_full(const Finding& finding, bool colour) {
  const Check& check = *finding.check;
  std::string text = format("  {} {} {} {}\n", mark(finding.status, colour), check.id,
      painted(finding.outcome.found, "1", colour),
      finding.risk > 0 ? format("(up to {:.0f} % of goodput)", 100 * finding.risk) : "");
  const std::string read = evidence_line(finding.outcome);
  if (!read.empty()) text += format("       read    {}\n", read);
  text += format("       why     {}\n", check.why);
  text += format("       effect  {}\n", check.effect);
  return text + fix_lines(finding.fix);
}

}  // namespace

std::string report_text(const Report& report, const TextOptions& options) {
  std::string text = format("cheetah doctor: {}\n", report.subject);
  for (int layer = 0; layer <= static_cast<int>(Layer::kMeasured); ++layer) {
    std::string section;
    for (const Finding& finding : report.findings) {
      if (static_cast<int>(finding.check->layer) != layer) continue;
      if (is_trouble(finding))
        section += in_full(finding, options.colour);
      else if (options.verbose || finding.status == Status::kInfo)
        section += format("  {} {} {}: {}\n", mark(finding.status, options.colour), finding.check->id,
            finding.check->title, finding.outcome.found);
    }
    if (!section.empty())
      text += format("\n{}\n{}", painted(name_of(static_cast<Layer>(layer)), "1;4", options.colour), section);
  }
  for (const std::string& problem : report.problems) text += format("\nnote: {}\n", problem);
  text += format("\n{} checks: {} fail, {} warn, {} info, {} passed, {} not applicable, {} unknown\n",
      report.findings.size(), report.count(Status::kFail), report.count(Status::kWarn),
      report.count(Status::kInfo), report.count(Status::kPass), report.count(Status::kNotApplicable),
      report.count(Status::kUnknown));
  text += format("goodput at risk: {:.0f} %{}\n", 100 * report.goodput_at_risk,
      report.goodput_at_risk > 0 ? "; the costliest first:" : "");
  for (const Finding& finding : report.findings)
    if (finding.risk > 0)
      text += format("  {:>3.0f} %  {}  {}\n", 100 * finding.risk, finding.check->id, finding.outcome.found);
  if (!report.root_adds.empty())
    text += format("as root, {} more checks could be answered, e.g. {}\n", report.root_adds.size(),
        report.root_adds.front());
  return text;
}

namespace {

std::string fix_cell(const Fix& fix) {
  if (!fix.refusal.empty()) return "not by command: " + fix.refusal;
  std::string text;
  int more = 0;
  for (const Step& step : fix.steps)
    if (text.size() > 300)
      ++more;
    else
      text += (text.empty() ? "" : "; ") + shell_line(step);
  if (more > 0) text += format(" and {} more", more);
  return text.empty() ? fix.advice : text;
}

}  // namespace

std::string report_markdown(const Report& report) {
  std::string text = format(
      "# Doctor: {}\n\nGoodput at risk: **{:.0f} %** ({} fail, {} warn, {} passed, {} not applicable, {} "
      "unknown)\n\n",
      report.subject, 100 * report.goodput_at_risk, report.count(Status::kFail), report.count(Status::kWarn),
      report.count(Status::kPass), report.count(Status::kNotApplicable), report.count(Status::kUnknown));
  text += "| Status | Found | Layer | At risk | Fix |\n|---|---|---|---|---|\n";
  const auto cell = [](std::string_view raw) {
    std::string safe;
    for (const char c : raw) {
      if (c == '|') safe += '\\';
      safe += c == '\n' ? ' ' : c;
    }
    return safe;
  };
  for (const Finding& finding : report.findings) {
    if (finding.status == Status::kPass || finding.status == Status::kNotApplicable) continue;
    text += format("| {} | {} {} | {} | {} | {} |\n", name_of(finding.status), finding.check->id,
        cell(finding.outcome.found), name_of(finding.check->layer),
        finding.risk > 0 ? format("{:.0f} %", 100 * finding.risk) : "", cell(fix_cell(finding.fix)));
  }
  return text;
}

}  // namespace cheetah::doctor
