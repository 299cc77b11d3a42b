// SPDX-License-Identifier: MIT
#pragma once
// NVML, the driver's library that tells about NVIDIA GPUs, loaded at run time: a machine without the driver
// needs neither header nor library. Callers declare the few structures they pass.
#include <dlfcn.h>

#include <string>

namespace cheetah {

class NvmlLibrary {
 public:
  static constexpr const char* kDriversOwn = "libnvidia-ml.so.1";
  using Status = int;
  static constexpr Status kSuccess = 0;

  explicit NvmlLibrary(const std::string& path);
  ~NvmlLibrary();
  NvmlLibrary(const NvmlLibrary&) = delete;
  NvmlLibrary& operator=(const NvmlLibrary&) = delete;

  bool loaded() const { return handle_ != nullptr; }
  const std::string& error() const { return error_; }  // why not

  // Calls NAME with the arguments; a function this driver lacks is a failed call.
  template <class... Arguments>
  Status call(const char* name, Arguments... arguments) const {
    if (handle_ == nullptr) return -1;
    auto* function = reinterpret_cast<Status (*)(Arguments...)>(dlsym(handle_, name));
    return function == nullptr ? -1 : function(arguments...);
  }

 private:
  void* handle_;
  std::string error_;
};

}  // namespace cheetah
