// SPDX-License-Identifier: MIT
#pragma once
// What the doctor's subcommands share: where to look, what the machine is for, how to print.
#include <string>
#include <vector>

#include "cli/command.h"
#include "doctor/collect.h"
#include "doctor/report.h"

namespace CLI {
class App;
}

namespace cheetah {

struct DoctorOptions {
  std::string root = "/";
  std::string from;  // a snapshot
  std::string save;
  std::string html;  // file of a page
  std::string purpose = "serve";
  doctor::Intent intent;
  std::string nvml = "libnvidia-ml.so.1";
  bool json = false, markdown = false, sarif = false, verbose = false;
  std::string fail_on = "never";
  std::vector<std::string> only, waived;
  bool fix = false, undo = false, yes = false, lasting = false;
  std::string expect;   // a site's profile
  std::string history;  // kept by doctor watch
  std::string journal;  // "": below var/lib/cheetah of the root
};

void add_source_options(CLI::App& command, DoctorOptions& options);
void add_output_options(CLI::App& command, DoctorOptions& options);

doctor::Collected collect_facts(const DoctorOptions& options);
// Names the examined machine in a report.
std::string subject_of(const doctor::Facts& facts, const DoctorOptions& options);

// Prints in the chosen form; the exit code by --fail-on.
int print_report(const doctor::Report& report, const DoctorOptions& options);

// Applies the steps of the report's fixes, or undoes those of the journal; the exit code.
int run_fix(const doctor::Report& report, const DoctorOptions& options);
int run_undo(const DoctorOptions& options);

// The machine's layers, fixes included. Throws UsageError for a check that there is none of.
doctor::Report examine_facts(const doctor::Collected& all, const DoctorOptions& options);
std::string host_name(const DoctorOptions& options);

void add_doctor_watch(CLI::App& doctor, Action& action);
void add_doctor_baseline(CLI::App& doctor, Action& action);
void add_doctor_test(CLI::App& doctor, Action& action);

// pod, engine, profile, measure, diff, checklist.
void add_doctor_inputs(CLI::App& doctor, Action& action);

}  // namespace cheetah
