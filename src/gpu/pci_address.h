// SPDX-License-Identifier: MIT
#pragma once
#include <string>

namespace cheetah::gpu {

// "0000:1A:00.0": what NVML knows the device under, whatever CUDA_VISIBLE_DEVICES makes of its index.
std::string pci_address(int index = 0);

}  // namespace cheetah::gpu
