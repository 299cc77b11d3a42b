// SPDX-License-Identifier: MIT
#include <algorithm>

#include "base/ascii.h"
#include "base/error.h"
#include "base/format.h"
#include "base/markup.h"
#include "base/report_page.h"
#include "doctor/report.h"

namespace cheetah::doctor {
namespace {

constexpr double kMostBars = 12;

std::string_view colour_of(Status status) {
  switch (status) {
    case Status::kFail:
      return "fail";
    case Status::kWarn:
      return "warn";
    case Status::kPass:
      return "pass";
    default:
      return "";
  }
}

std::string badge_of(const Finding& finding) {
  return report_badge(std::string(name_of(finding.status)), colour_of(finding.status));
}

std::string commands_of(const Fix& fix) {
  std::string lines;
  for (const Step& step : fix.steps)
    lines += format("{}{}\n", shell_line(step), step.when == When::kLasting ? "  # lasts over a reboot" : "");
  return lines;
}

std::string fix_html(const Fix& fix) {
  const std::string commands = commands_of(fix);
  std::string out;
  if (!fix.refusal.empty())
    out = format("<p><b>Fix</b>, not by command: {}.</p>\n", escape_markup(fix.refusal));
  else if (commands.empty())
    out = format("<p><b>Fix</b>: {}.</p>\n", escape_markup(fix.advice));
  else
    out = format(
        "<p><b>Fix</b></p>\n<div class=\"table\" tabindex=\"0\" role=\"region\" aria-label=\"Commands\">"
        "<pre class=\"commands\">{}</pre></div>\n",
        escape_markup(commands));
  for (const std::string& note : fix.notes) out += format("<p class=\"soft\">{}</p>\n", escape_markup(note));
  return out;
}

std::string evidence_html(const Outcome& outcome) {
  std::vector<std::vector<std::string>> rows;
  for (const Evidence& evidence : outcome.evidence)
    if (!evidence.source.empty())
      rows.push_back({printable(evidence.source, 200), printable(evidence.value, 200)});
  if (rows.empty()) return "";
  return "<details><summary>What was read</summary>\n" + report_table({"from", "value"}, rows) +
         "</details>\n";
}

std::string trouble_html(const Finding& finding) {
  const Check& check = *finding.check;
  std::string out = format("<section id=\"{0}\"><h3>{1} <span class=\"soft\">{0}</span> {2}</h3>\n", check.id,
      badge_of(finding), escape_markup(finding.outcome.found));
  out += format("<p>{}</p>\n<p class=\"soft\">Effect: {}{}.</p>\n", escape_markup(check.why),
      escape_markup(check.effect),
      finding.risk > 0 ? format("; up to {:.0f} % of goodput", 100 * finding.risk) : "");
  return out + fix_html(finding.fix) + evidence_html(finding.outcome) + "</section>\n";
}

// The checks of some states, in a table.
std::string others_html(const Report& report, std::string_view title, const std::vector<Status>& wanted) {
  std::string rows;
  int count = 0;
  for (const Finding& finding : report.findings) {
    if (std::ranges::find(wanted, finding.status) == wanted.end()) continue;
    ++count;
    rows += format(
        "<tr><th scope=\"row\">{}</th><td class=\"left\">{}</td><td class=\"wrap\">{}</td><td>{}</td></tr>\n",
        finding.check->id, badge_of(finding),
        escape_markup(format("{}: {}", finding.check->title, finding.outcome.found)),
        name_of(finding.check->layer));
  }
  if (count == 0) return "";
  return format("<details><summary>{}: {}</summary>\n", title, count) +
         report_table_of_rows({"check", "", "found", "layer"}, rows) + "</details>\n";
}

std::string risks_chart(const Report& report) {
  BarChart chart{.title = "Goodput at risk, by finding", .bars = {}};
  for (const Finding& finding : report.findings)
    if (finding.risk > 0 && static_cast<double>(chart.bars.size()) < kMostBars)
      chart.bars.push_back({.name = std::string(finding.check->id),
          .value = 100 * finding.risk,
          .label = format("{:.0f} %", 100 * finding.risk),
          .css_class = finding.status == Status::kFail ? "slower" : "baseline"});
  return chart.bars.empty() ? "" : report_chart(chart);
}

}  // namespace

std::string report_html(const Report& report, const std::string& date) {
  std::string body = report_tiles({{"Goodput at risk", format("{:.0f}", 100 * report.goodput_at_risk), "%"},
      {"Fail", format("{}", report.count(Status::kFail))},
      {"Warn", format("{}", report.count(Status::kWarn))},
      {"Passed", format("{}", report.count(Status::kPass))},
      {"Unknown", format("{}", report.count(Status::kUnknown))}});
  body += risks_chart(report);
  std::string troubles;
  for (const Finding& finding : report.findings)
    if (finding.status == Status::kFail || finding.status == Status::kWarn) troubles += trouble_html(finding);
  body += troubles.empty() ? "<p>Nothing was found that costs performance.</p>\n"
                           : "<h2>Findings, the costliest first</h2>\n" + troubles;
  body += "<h2>Other checks</h2>\n" + others_html(report, "Worth knowing", {Status::kInfo}) +
          others_html(report, "Unknown", {Status::kUnknown}) +
          others_html(report, "Passed", {Status::kPass}) +
          others_html(report, "Not applicable", {Status::kNotApplicable});
  for (const std::string& problem : report.problems)
    body += format("<p class=\"note\">{}</p>\n", escape_markup(problem));
  std::string title = report.subject;
  if (!title.empty()) title.front() = ascii_upper(title.front());
  return report_page({.kind = "Doctor", .title = title, .date = date, .about = ""}, body);
}

}  // namespace cheetah::doctor
