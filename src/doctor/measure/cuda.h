#pragma once
// The CUDA driver and cuBLAS, loaded at run time by declarations of our own: measuring needs no toolkit.
#include <dlfcn.h>

#include <string>

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

}  // namespace cheetah::doctor
