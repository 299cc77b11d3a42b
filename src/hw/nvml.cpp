// SPDX-License-Identifier: MIT
#include "hw/nvml.h"

namespace cheetah {

NvmlLibrary::NvmlLibrary(const std::string& path) : handle_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (handle_ != nullptr) return;
  const char* why = dlerror();
  error_ = why != nullptr ? why : "it cannot be loaded";
}

NvmlLibrary::~NvmlLibrary() {
  if (handle_ != nullptr) dlclose(handle_);
}

}  // namespace cheetah
