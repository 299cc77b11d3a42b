// SPDX-License-Identifier: MIT
#pragma once
// What no file of a live machine holds: the answers to "cheetah/NAME" (doctor/source.h). All of them only
// read.
#include <string>

#include "doctor/source.h"

namespace cheetah::doctor {

struct ProbeOptions {
  std::string nvml_library = "libnvidia-ml.so.1";
  std::string environment;  // ours, one NAME=value a line; the caller passes what concerns us
};

// nvml, nvidia-smi.csv, dmesg, user, clock, devices, addresses, environ/PID, space/PATH, files/PATH, ethtool/NIC.
Probes live_probes(const ProbeOptions& options);

// Whether a variable concerns performance; others (they may be secrets) are never kept.
bool concerns_performance(std::string_view variable);

}  // namespace cheetah::doctor
