// SPDX-License-Identifier: MIT
#pragma once
#include <string>

#include "lab/run.h"

namespace cheetah::lab {

// One page that opens from a file, with no network: verdicts, bars, size sweeps, rooflines, provenance.
std::string report_html(const LabRun& run);

}  // namespace cheetah::lab
