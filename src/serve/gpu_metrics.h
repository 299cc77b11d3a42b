// SPDX-License-Identifier: MIT
#pragma once
// Readings of a GPU for /metrics.
#include <string>

#include "hw/gpu_watch.h"

namespace cheetah {

// A gauge for each number the driver told, labelled with the GPU's address; nothing where nothing is known.
std::string gpu_metrics_text(const GpuReading& reading, std::string_view pci_address);

}  // namespace cheetah
