// SPDX-License-Identifier: MIT
#include <set>

#include "base/format.h"
#include "base/text.h"
#include "lab/analysis/diagnose.h"

namespace cheetah::analysis {
namespace {

std::string bullets(const char* label, const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) {
    text += format("    {:<9} {}\n", text.empty() ? label : "", line);
  }
  return text;
}

std::string numbered(const char* label, const std::vector<std::string>& lines) {
  std::string text;
  for (size_t i = 0; i < lines.size(); ++i)
    text += format("    {:<9} {}. {}\n", i == 0 ? label : "", i + 1, lines[i]);
  return text;
}

std::string finding_text(const Finding& finding) {
  std::string text = format("  {:<5} {} ({})\n", finding.id, finding.title, name_of(finding.strength));
  text += bullets("seen", finding.evidence);
  text += numbered("try", finding.remedies);
  text += bullets("then", finding.expect);
  return text;
}

std::string unjudged_text(const std::vector<Unjudged>& rules) {
  if (rules.empty()) return "";
  std::string text = "  not known, for lack of counters:\n";
  std::set<std::string_view> sections;
  for (const Unjudged& rule : rules) {
    text += format("    {:<5} {}: needs {}\n", rule.id, rule.title, fmt::join(rule.missing, ", "));
    for (const std::string_view word : words_of(rule.collect))
      if (!word.starts_with("--")) sections.insert(word);
  }
  if (sections.empty()) return text;
  text += "    collect with: ncu --csv --page raw";
  for (const std::string_view section : sections)
    text +=
        format(" {} {}", section.find(':') == std::string_view::npos ? "--section" : "--metrics", section);
  return text + "\n";
}

std::string joined(const std::vector<std::string>& ids) {
  return ids.empty() ? "nothing" : format("{}", fmt::join(ids, ", "));
}

}  // namespace

std::string diagnosis_text(const Diagnosis& diagnosis) {
  std::string text = format("{}\n  regime: {}{}\n", diagnosis.counters.name, name_of(diagnosis.regime),
      diagnosis.primary.empty() ? "" : format(" ({})", diagnosis.primary));
  for (const Finding& finding : diagnosis.findings) text += finding_text(finding);
  text += unjudged_text(diagnosis.unjudged);
  text += "  next:\n";
  for (const std::string& step : diagnosis.next) text += format("    - {}\n", step);
  return text;
}

Json diagnosis_json(const Diagnosis& diagnosis) {
  Json findings = Json::array(), unjudged = Json::array();
  for (const Finding& finding : diagnosis.findings)
    findings.push_back({{"id", finding.id}, {"title", finding.title}, {"strength", name_of(finding.strength)},
        {"evidence", finding.evidence}, {"remedies", finding.remedies}, {"expect", finding.expect}});
  for (const Unjudged& rule : diagnosis.unjudged)
    unjudged.push_back(
        {{"id", rule.id}, {"title", rule.title}, {"missing", rule.missing}, {"collect", rule.collect}});
  return {{"name", diagnosis.counters.name}, {"regime", name_of(diagnosis.regime)},
      {"primary", diagnosis.primary}, {"counters", diagnosis.counters.values},
      {"stalls", diagnosis.counters.stalls}, {"findings", std::move(findings)},
      {"unjudged", std::move(unjudged)}, {"next", diagnosis.next}};
}

std::string comparison_text(const Comparison& c) {
  std::string text = format("  against before: {}\n", c.verdict);
  text +=
      format("    cleared {}; stayed {}; new {}\n", joined(c.cleared), joined(c.stayed), joined(c.appeared));
  text += bullets("moved", c.moved);
  return text;
}

Json comparison_json(const Comparison& c) {
  return {{"speedup", c.speedup}, {"verdict", c.verdict}, {"cleared", c.cleared}, {"stayed", c.stayed},
      {"new", c.appeared}, {"moved", c.moved}};
}

}  // namespace cheetah::analysis
