// SPDX-License-Identifier: MIT
#pragma once
// The CUDA driver and cuBLAS, loaded at run time by declarations of our own: measuring needs no toolkit.
#include <dlfcn.h>

#include <string>
#include <vector>

#include "base/statistics.h"

namespace cheetah::doctor {

// A shared library and the functions in it. A function it lacks fails like a call that fails.
class RuntimeLibrary {
 public:
  RuntimeLibrary(std::initializer_list<const char*> names) {
    for (const char* name : names)
      if (handle_ == nullptr) handle_ = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  }
  ~RuntimeLibrary() {
    if (handle_ != nullptr) dlclose(handle_);
  }
  RuntimeLibrary(const RuntimeLibrary&) = delete;
  RuntimeLibrary& operator=(const RuntimeLibrary&) = delete;
  bool loaded() const { return handle_ != nullptr; }

  template <class... Arguments>
  bool call(const char* name, Arguments... arguments) const {
    auto* function =
        handle_ == nullptr ? nullptr : reinterpret_cast<int (*)(Arguments...)>(dlsym(handle_, name));
    return function != nullptr && function(arguments...) == 0;
  }

 private:
  void* handle_ = nullptr;
};

using CudaPointer = unsigned long long;
using CudaHandle = void*;  // context, stream, event, module, function
constexpr int kCudaRepeats = 10;

// A device's primary context with a stream and two events; current on the thread that made it.
class Context {
 public:
  Context(const RuntimeLibrary& cuda, int device) : cuda_(cuda) {
    ok_ = cuda.call("cuDeviceGet", &device_, device) &&
          cuda.call("cuDevicePrimaryCtxRetain", &context_, device_) &&
          cuda.call("cuCtxSetCurrent", context_) && cuda.call("cuStreamCreate", &stream_, 1u) &&
          cuda.call("cuEventCreate", &begin_, 0u) && cuda.call("cuEventCreate", &end_, 0u);
  }
  ~Context() {
    if (context_ != nullptr) cuda_.call("cuDevicePrimaryCtxRelease_v2", device_);
  }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  bool ok() const { return ok_; }
  CudaHandle stream() const { return stream_; }
  CudaHandle handle() const { return context_; }
  bool wait() const { return cuda_.call("cuStreamSynchronize", stream_); }

  // Median seconds of `work`, by the GPU's own events, after a warm-up. 0: a call failed.
  template <class Work>
  double seconds(Work work, int repeats = kCudaRepeats) const {
    std::vector<double> samples;
    for (int i = 0; i <= repeats; ++i) {
      float milliseconds = 0;
      if (!cuda_.call("cuEventRecord", begin_, stream_) || !work() ||
          !cuda_.call("cuEventRecord", end_, stream_) || !cuda_.call("cuEventSynchronize", end_) ||
          !cuda_.call("cuEventElapsedTime", &milliseconds, begin_, end_))
        return 0;
      if (i > 0) samples.push_back(milliseconds / 1000);
    }
    return median(samples);
  }

 private:
  const RuntimeLibrary& cuda_;
  int device_ = 0;
  bool ok_ = false;
  CudaHandle context_ = nullptr, stream_ = nullptr, begin_ = nullptr, end_ = nullptr;
};

// Memory of the current device, freed at the end.
class DeviceMemory {
 public:
  DeviceMemory(const RuntimeLibrary& cuda, size_t bytes) : cuda_(cuda) {
    if (!cuda.call("cuMemAlloc_v2", &pointer_, bytes)) pointer_ = 0;
  }
  ~DeviceMemory() {
    if (pointer_ != 0) cuda_.call("cuMemFree_v2", pointer_);
  }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  CudaPointer get() const { return pointer_; }
  bool ok() const { return pointer_ != 0; }

 private:
  const RuntimeLibrary& cuda_;
  CudaPointer pointer_ = 0;
};

// Random BF16 numbers in [-1, 1): products of zeros draw less power and run faster than real ones.
bool fill_random(const RuntimeLibrary& cuda, const DeviceMemory& memory, size_t count);

}  // namespace cheetah::doctor
