// SPDX-License-Identifier: MIT
#include "doctor/expected.h"

#include "base/error.h"
#include "base/format.h"
#include "doctor/diff.h"
#include "doctor/document.h"

namespace cheetah::doctor {
namespace {

constexpr const char* kSchema = "cheetah-doctor-baseline-1";

std::string yaml_text(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : printable(text, 8000)) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

}  // namespace

std::string baseline_text(const Facts& facts, const std::string& made_of) {
  std::string text = format(
      "# What a host should have, made from {}. Delete the lines that may differ; a list holds\n"
      "# several right values. cheetah doctor --expect FILE compares.\nschema: {}\nexpect:\n",
      printable(made_of, 200), kSchema);
  for (const auto& [name, value] : inventory(facts))
    if (value != "-" && !value.empty()) text += format("  {}: {}\n", yaml_text(name), yaml_text(value));
  return text;
}

Expected parse_expected(std::string_view text, const std::string& what) {
  const auto documents = parse_documents(text, what);
  if (documents.empty() || documents[0].at("schema").text != kSchema || !documents[0].at("expect").is_map())
    throw Error(format("{}: expected 'schema: {}' and a map 'expect', as cheetah doctor baseline writes them",
        what, kSchema));
  Expected expected;
  for (const auto& [name, value] : documents[0].at("expect").members) {
    std::vector<std::string>& values = expected[name];
    if (value.is_list())
      for (const Document& one : value.items) values.push_back(one.text);
    else
      values.push_back(value.text);
  }
  return expected;
}

}  // namespace cheetah::doctor
