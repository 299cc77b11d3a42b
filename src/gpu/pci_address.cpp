// SPDX-License-Identifier: MIT
#include "gpu/pci_address.h"

#include "gpu/check.cuh"

namespace cheetah::gpu {

std::string pci_address(int index) {
  char address[32] = {};
  check(cudaDeviceGetPCIBusId(address, sizeof address, index));
  return address;
}

}  // namespace cheetah::gpu
