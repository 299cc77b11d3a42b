// SPDX-License-Identifier: MIT
#include "base/json.h"

#include "base/format.h"
#include "base/text.h"
#include "doctor/report.h"

namespace cheetah::doctor {
namespace {

Json fix_json(const Fix& fix) {
  Json steps = Json::array();
  for (const Step& step : fix.steps)
    steps.push_back({{"when", step.when == When::kNow ? "now" : "lasting"}, {"do", shell_line(step)},
        {"undo", undo_line(step)}});
  return {{"advice", fix.advice}, {"refused", fix.refusal}, {"steps", steps}, {"notes", fix.notes}};
}

Json finding_json(const Finding& finding) {
  const Check& check = *finding.check;
  Json evidence = Json::array(), subjects = Json::array();
  for (const Evidence& item : finding.outcome.evidence)
    evidence.push_back({{"source", item.source}, {"value", item.value}});
  for (const Subject& item : finding.outcome.subjects)
    subjects.push_back({{"name", item.name}, {"was", item.was}});
  return {{"id", check.id}, {"layer", name_of(check.layer)}, {"status", name_of(finding.status)},
      {"title", check.title}, {"found", finding.outcome.found}, {"evidence", evidence},
      {"subjects", subjects}, {"why", check.why}, {"effect", check.effect}, {"fix", fix_json(finding.fix)},
      {"checklist", check.items}, {"goodput_at_risk", finding.risk}};
}

// 2.1.0 §3.27.10: only a result of the kind "fail" has a level.
const char* sarif_level(const Finding& finding) {
  if (finding.risk <= 0) return "none";
  return finding.status == Status::kFail ? "error" : "warning";
}

// A path of the examined machine as a URI reference; what no file holds has none.
std::string uri_of(const std::string& path) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/";
  std::string uri;
  for (const char c : path) {
    if (contains(kPlain, std::string_view(&c, 1)))
      uri += c;
    else
      uri += format("%{:02X}", static_cast<unsigned>(static_cast<unsigned char>(c)));
  }
  return uri;
}

Json sarif_location(const std::string& source) {
  if (contains(source, "cheetah/") || contains(source, "*") || contains(source, " ") ||
      !contains(source, "/"))
    return {{"logicalLocations", Json::array({{{"fullyQualifiedName", source}}})}};
  return {{"physicalLocation", {{"artifactLocation", {{"uri", uri_of(source)}, {"uriBaseId", "ROOT"}}}}}};
}

Json sarif_rule(const Check& check) {
  return {{"id", check.id}, {"shortDescription", {{"text", check.title}}},
      {"fullDescription", {{"text", check.why}}},
      {"help", {{"text", std::string(check.effect) + ". Fix: " + rendered(check.fix, {})}}},
      {"properties", {{"layer", name_of(check.layer)}}}};
}

std::string message_of(const Finding& finding) {
  const std::string& way = finding.fix.refusal.empty() ? finding.fix.advice : finding.fix.refusal;
  return finding.risk > 0 ? finding.outcome.found + ". Fix: " + way : finding.outcome.found;
}

Json sarif_result(const Finding& finding, size_t rule_index) {
  Json locations = Json::array();
  for (const Evidence& evidence : finding.outcome.evidence)
    if (!evidence.source.empty() && locations.size() < 10)
      locations.push_back(sarif_location(evidence.source));
  return {{"ruleId", finding.check->id}, {"ruleIndex", rule_index}, {"level", sarif_level(finding)},
      {"kind", finding.risk > 0 ? "fail" : "informational"}, {"message", {{"text", message_of(finding)}}},
      {"locations", locations}, {"rank", 100 * finding.risk}};
}

}  // namespace

std::string report_json(const Report& report) {
  Json findings = Json::array();
  for (const Finding& finding : report.findings) findings.push_back(finding_json(finding));
  const Json counts = {{"fail", report.count(Status::kFail)}, {"warn", report.count(Status::kWarn)},
      {"info", report.count(Status::kInfo)}, {"pass", report.count(Status::kPass)},
      {"unknown", report.count(Status::kUnknown)}, {"not_applicable", report.count(Status::kNotApplicable)}};
  return dump_json(
             {{"schema", "cheetah-doctor-1"}, {"subject", report.subject},
                 {"goodput_at_risk", report.goodput_at_risk}, {"counts", counts}, {"findings", findings},
                 {"problems", report.problems}, {"root_adds", report.root_adds}},
             2) +
         "\n";
}

std::string report_sarif(const Report& report, const std::string& version) {
  Json rules = Json::array(), results = Json::array();
  for (const Finding& finding : report.findings) {
    if (finding.status != Status::kFail && finding.status != Status::kWarn && finding.status != Status::kInfo)
      continue;
    results.push_back(sarif_result(finding, rules.size()));
    rules.push_back(sarif_rule(*finding.check));
  }
  const Json driver = {{"name", "cheetah doctor"}, {"version", version},
      {"informationUri", "https://docs.oasis-open.org/sarif/sarif/v2.1.0/"}, {"rules", rules}};
  return dump_json({{"$schema", "https://json.schemastore.org/sarif-2.1.0.json"}, {"version", "2.1.0"},
                       {"runs", Json::array({{{"tool", {{"driver", driver}}},
                                    {"originalUriBaseIds", {{"ROOT", {{"uri", "file:///"}}}}},
                                    {"results", results}}})}},
             2) +
         "\n";
}

}  // namespace cheetah::doctor
