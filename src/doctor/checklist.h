// SPDX-License-Identifier: MIT
#pragma once
// The whole performance checklist: what checks answer, what a measurement answers, and what only a person
// can.
#include <chrono>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cheetah::doctor {

enum class Answer { kAutomatic, kMeasured, kQuestion };

struct ChecklistItem {
  std::string_view id;  // F02
  std::string_view title;
  Answer answer;
  std::string_view question;  // what to ask a person; for the others what is looked at
};

std::span<const ChecklistItem> checklist_items();
std::string_view section_of(std::string_view id);  // "Operating system and driver"

// Checks whose row names this item.
std::vector<std::string_view> checks_for(std::string_view item);

// A person's answer to a question, kept in a file.
struct Acknowledgement {
  std::string id, decision, by, date, note;  // decision: done, not-applicable, accepted-risk
  int review_days = 180;
};
using Acknowledgements = std::map<std::string, Acknowledgement, std::less<>>;

// Throws Error. The file is YAML: a list of maps with the members above.
Acknowledgements parse_acknowledgements(std::string_view text, const std::string& what);
std::string acknowledgements_yaml(const Acknowledgements& all);

// "open", "done by NAME on DATE", "due for review"; today as YYYY-MM-DD.
std::string state_of(const ChecklistItem& item, const Acknowledgements& all, const std::string& today);
std::string checklist_text(const Acknowledgements& all, const std::string& today);

}  // namespace cheetah::doctor
