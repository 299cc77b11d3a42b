// SPDX-License-Identifier: MIT
#pragma once
// What the lab's own JSON (cheetah lab run --json) tells the calculators: roofs, points under them, counters.
#include <string>
#include <vector>

#include "lab/analysis/counters.h"
#include "lab/analysis/roofline.h"

namespace cheetah::analysis {

// Has the parts of a run of the lab.
bool is_lab_run(const Json& document);

// The measured roofs of one domain: "cuda" or "cpu"; "": cuda where there are any. Throws Error when there
// are none.
RoofSet roofs_of_run(const Json& run, const std::string& domain, const std::string& what);
// Variants that were timed, right and do floating-point work; of the domain of these roofs.
std::vector<RooflinePoint> points_of_run(const Json& run, const std::string& domain, const std::string& what);
// Variants that were timed on a GPU and right, as far as a stopwatch and the exact counts tell. Throws Error
// when there are none.
std::vector<Counters> counters_of_run(const Json& run, const std::string& what);

}  // namespace cheetah::analysis
