// SPDX-License-Identifier: MIT
#include "doctor/checklist.h"

#include <algorithm>
#include <cstdio>

#include "base/error.h"
#include "base/format.h"
#include "doctor/check.h"
#include "doctor/document.h"

namespace cheetah::doctor {
namespace {

struct Section {
  char letter;
  std::string_view name;
};
constexpr Section kSections[] = {{'A', "Tuning and cost"}, {'B', "Reproducibility and records"},
    {'C', "Hardware planning"}, {'D', "CPU-GPU superchips"}, {'E', "Multi-GPU scaling"},
    {'F', "Operating system and driver"}, {'G', "GPU resources"}, {'H', "Input and output"},
    {'I', "Data pipelines"}, {'J', "Profiling and monitoring"}, {'K', "CUDA programming"},
    {'L', "Kernel scheduling"}, {'M', "Precision"}, {'N', "Algorithms"}, {'O', "Distributed network"},
    {'P', "Serving"}, {'Q', "Multi-node serving"}, {'R', "Power and heat"}};

// Days since 1970 of a date YYYY-MM-DD; nullopt when it is none.
std::optional<long> days_of(const std::string& date) {
  int year = 0, month = 0, day = 0;
  if (std::sscanf(date.c_str(), "%4d-%2d-%2d", &year, &month, &day) != 3) return std::nullopt;
  const std::chrono::year_month_day ymd{std::chrono::year(year),
      std::chrono::month(static_cast<unsigned>(month)), std::chrono::day(static_cast<unsigned>(day))};
  if (!ymd.ok()) return std::nullopt;
  return std::chrono::sys_days(ymd).time_since_epoch().count();
}

std::string quoted(const std::string& text) {
  std::string safe = "\"";
  for (const char c : printable(text, 1000)) {
    if (c == '"' || c == '\\') safe += '\\';
    safe += c;
  }
  safe += '"';
  return safe;
}

}  // namespace

std::string_view section_of(std::string_view id) {
  for (const Section& section : kSections)
    if (!id.empty() && section.letter == id[0]) return section.name;
  return "";
}

std::vector<std::string_view> checks_for(std::string_view item) {
  std::vector<std::string_view> found;
  for (const Check* check : all_checks()) {
    const auto items = split(check->items, ',');
    if (std::find(items.begin(), items.end(), item) != items.end()) found.push_back(check->id);
  }
  return found;
}

Acknowledgements parse_acknowledgements(std::string_view text, const std::string& what) {
  Acknowledgements all;
  for (const Document& document : parse_documents(text, what))
    for (const Document& entry : document.items) {
      Acknowledgement one{entry.at("id").string_or(""), entry.at("decision").string_or(""),
          entry.at("by").string_or(""), entry.at("date").string_or(""), entry.at("note").string_or(""),
          static_cast<int>(std::clamp(entry.at("review_days").number().value_or(180), 1.0, 36500.0))};
      const auto items = checklist_items();
      if (std::none_of(
              items.begin(), items.end(), [&](const ChecklistItem& item) { return item.id == one.id; }))
        throw Error(format("{}:{}: '{}' is no item of the checklist", what, entry.line, printable(one.id)));
      if (one.decision != "done" && one.decision != "not-applicable" && one.decision != "accepted-risk")
        throw Error(format("{}:{}: {}: '{}' is no decision: expected done, not-applicable or accepted-risk",
            what, entry.line, one.id, printable(one.decision)));
      all[one.id] = one;
    }
  return all;
}

std::string acknowledgements_yaml(const Acknowledgements& all) {
  std::string text = "# Answers to the questions of 'cheetah doctor checklist'.\n";
  for (const auto& [id, one] : all)
    text += format("- id: {}\n  decision: {}\n  by: {}\n  date: {}\n  note: {}\n  review_days: {}\n", id,
        one.decision, quoted(one.by), one.date, quoted(one.note), one.review_days);
  return text;
}

std::string state_of(const ChecklistItem& item, const Acknowledgements& all, const std::string& today) {
  const auto found = all.find(item.id);
  if (found == all.end()) return item.answer == Answer::kQuestion ? "open" : "";
  const Acknowledgement& one = found->second;
  const auto then = days_of(one.date), now = days_of(today);
  const bool stale = !then || (now && *now - *then > one.review_days);
  return format("{}{} by {} on {}", stale ? "due for review: " : "", one.decision, printable(one.by),
      printable(one.date));
}

std::string checklist_text(const Acknowledgements& all, const std::string& today) {
  std::string text;
  std::string_view section;
  int automatic = 0, measured = 0, questions = 0, open = 0;
  for (const ChecklistItem& item : checklist_items()) {
    if (section_of(item.id) != section) {
      section = section_of(item.id);
      text += format("\n{}. {}\n", item.id[0], section);
    }
    const std::string state = state_of(item, all, today);
    const bool question = item.answer == Answer::kQuestion;
    (item.answer == Answer::kAutomatic ? automatic : question ? questions : measured) += 1;
    if (question && state == "open") ++open;
    std::string how = question ? "question" : item.answer == Answer::kMeasured ? "measured" : "automatic";
    std::string checks;
    for (const std::string_view id : checks_for(item.id)) checks.append(checks.empty() ? "" : " ").append(id);
    text += format("  {:<5}{:<10}{}\n            {}\n", item.id, how, item.title, item.question);
    if (!checks.empty()) text += format("            checks: {}\n", checks);
    if (!state.empty()) text += format("            answer: {}\n", state);
  }
  text += format("\n{} items: {} automatic, {} measured, {} questions, {} of them open\n",
      checklist_items().size(), automatic, measured, questions, open);
  return text.substr(1);
}

}  // namespace cheetah::doctor
