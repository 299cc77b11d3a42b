// SPDX-License-Identifier: MIT
#pragma once
// What the checks found, put in order and written down.
#include <string>
#include <vector>

#include "doctor/check.h"
#include "doctor/fixes/fix.h"

namespace cheetah::doctor {

enum class Status { kFail, kWarn, kInfo, kUnknown, kPass, kNotApplicable };
std::string_view name_of(Status status);

struct Finding {
  const Check* check = nullptr;
  Outcome outcome;
  Status status = Status::kPass;
  double risk = 0;  // share of goodput at stake; 0 unless it fails or warns
  Fix fix;          // of a bad outcome
};

struct Report {
  std::vector<Finding> findings;       // the dearest first; then notes, unknown, passed, not applicable
  std::vector<std::string> problems;   // facts that could not be collected
  std::vector<std::string> root_adds;  // what root could read in addition
  std::string subject;                 // the machine, file or server that was examined
  double goodput_at_risk = 0;          // 1 - product of (1 - risk)

  int count(Status status) const;
};

// Runs the checks of some layers (all when empty) over the facts. `waived` ids are left out.
struct ExamineOptions {
  std::vector<Layer> layers = {};
  std::vector<std::string> only = {};
  std::vector<std::string> waived = {};
  // What was read from the machine: without it no step can be undone, so fixes are sentences alone.
  const Source* read = nullptr;
};
Report examine(const Facts& facts, const ExamineOptions& options = {});

// One check over the facts; an exception in it becomes "unknown".
Finding examine_one(const Check& check, const Facts& facts, const Source* read = nullptr);

struct TextOptions {
  bool verbose = false;  // passed and not applicable checks too
  bool colour = false;
};
std::string report_text(const Report& report, const TextOptions& options);
std::string report_markdown(const Report& report);
std::string report_html(const Report& report, const std::string& date);  // date: UTC, or ""
std::string report_json(const Report& report);
// `version`: of this program.
std::string report_sarif(const Report& report, const std::string& version);

// A shell script that applies, makes last and undoes the fixes that have steps; the others as comments.
std::string fix_plan(const Report& report);

}  // namespace cheetah::doctor
