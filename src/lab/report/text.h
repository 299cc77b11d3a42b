// SPDX-License-Identifier: MIT
#pragma once
// Results for a terminal.
#include "lab/run.h"

namespace cheetah::lab {

std::string human_time(double seconds);                // "12.3 us"
std::string human_rate(const VariantResult& variant);  // "1.23 TB/s", "45 TFLOP/s", "3.2 ns/hop"
std::string list_text(std::span<const Experiment* const> experiments);
std::string result_text(const ExperimentResult& result);
std::string explained_text(const ExperimentResult& result);  // with mechanism, claim and ideas
std::string run_summary_text(const LabRun& run);             // counts of verdicts, roofs, disturbances

}  // namespace cheetah::lab
