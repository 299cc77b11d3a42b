#include "base/json.h"

#include "doctor/report.h"

namespace cheetah::doctor {
namespace {

Json finding_json(const Finding& finding) {
  const Check& check = *finding.check;
  Json evidence = Json::array(), subjects = Json::array();
  for (const Evidence& item : finding.outcome.evidence)
    evidence.push_back({{"source", item.source}, {"value", item.value}});
  for (const Subject& item : finding.outcome.subjects)
    subjects.push_back({{"name", item.name}, {"was", item.was}});
  return {{"id", check.id},
          {"layer", name_of(check.layer)},
          {"status", name_of(finding.status)},
          {"title", check.title},
          {"found", finding.outcome.found},
          {"evidence", evidence},
          {"subjects", subjects},
          {"why", check.why},
          {"effect", check.effect},
          {"fix", check.fix},
          {"undo", check.undo},
          {"checklist", check.items},
          {"goodput_at_risk", finding.risk}};
}

const char* sarif_level(Status status) {
  if (status == Status::kFail) return "error";
  return status == Status::kWarn ? "warning" : "note";
}

Json sarif_rule(const Check& check) {
  return {{"id", check.id},
          {"shortDescription", {{"text", check.title}}},
          {"fullDescription", {{"text", check.why}}},
          {"help", {{"text", std::string(check.effect) + ". Fix: " + std::string(check.fix)}}},
          {"properties", {{"layer", name_of(check.layer)}}}};
}

Json sarif_result(const Finding& finding, size_t rule_index) {
  Json locations = Json::array();
  for (const Evidence& evidence : finding.outcome.evidence)
    if (!evidence.source.empty() && locations.size() < 10)
      locations.push_back({{"physicalLocation", {{"artifactLocation", {{"uri", evidence.source}}}}}});
  return {{"ruleId", finding.check->id},
          {"ruleIndex", rule_index},
          {"level", sarif_level(finding.status)},
          {"kind", finding.risk > 0 ? "fail" : "informational"},
          {"message", {{"text", finding.outcome.found}}},
          {"locations", locations},
          {"rank", 100 * finding.risk}};
}

}  // namespace

std::string report_json(const Report& report) {
  Json findings = Json::array();
  for (const Finding& finding : report.findings) findings.push_back(finding_json(finding));
  const Json counts = {
      {"fail", report.count(Status::kFail)},       {"warn", report.count(Status::kWarn)},
      {"info", report.count(Status::kInfo)},       {"pass", report.count(Status::kPass)},
      {"unknown", report.count(Status::kUnknown)}, {"not_applicable", report.count(Status::kNotApplicable)}};
  return dump_json({{"schema", "cheetah-doctor-1"},
                    {"subject", report.subject},
                    {"goodput_at_risk", report.goodput_at_risk},
                    {"counts", counts},
                    {"findings", findings},
                    {"problems", report.problems},
                    {"root_adds", report.root_adds}},
                   2) +
         "\n";
}

std::string report_sarif(const Report& report) {
  Json rules = Json::array(), results = Json::array();
  for (const Finding& finding : report.findings) {
    if (finding.status != Status::kFail && finding.status != Status::kWarn && finding.status != Status::kInfo)
      continue;
    results.push_back(sarif_result(finding, rules.size()));
    rules.push_back(sarif_rule(*finding.check));
  }
  const Json driver = {{"name", "cheetah doctor"},
                       {"informationUri", "https://docs.oasis-open.org/sarif/sarif/v2.1.0/"},
                       {"rules", rules}};
  return dump_json({{"$schema", "https://json.schemastore.org/sarif-2.1.0.json"},
                    {"version", "2.1.0"},
                    {"runs", Json::array({{{"tool", {{"driver", driver}}}, {"results", results}}})}},
                   2) +
         "\n";
}

}  // namespace cheetah::doctor
