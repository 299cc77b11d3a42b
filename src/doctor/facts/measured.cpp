// SPDX-License-Identifier: MIT
#include "doctor/facts/measured.h"

namespace cheetah::doctor {

Value<double> MeasuredFacts::number(const std::string& name) const {
  const auto found = values.find(name);
  if (found == values.end())
    return Value<double>::absent(name, "it was not measured (cheetah doctor measure)");
  const auto value = to_number(found->second);
  if (!value) return Value<double>::absent(name, found->second);  // the reason why it could not be measured
  return {*value, name};
}

std::vector<double> MeasuredFacts::all(std::string_view prefix) const {
  std::vector<double> numbers;
  for (const auto& [name, text] : values)
    if (starts_with(name, prefix))
      if (const auto value = to_number(text)) numbers.push_back(*value);
  return numbers;
}

MeasuredFacts parse_measured(std::string_view text) { return {fields_of(text, '='), "measured"}; }

}  // namespace cheetah::doctor
