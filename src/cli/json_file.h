// SPDX-License-Identifier: MIT
#pragma once
#include <string>

#include "base/atomic_file.h"
#include "base/json.h"

namespace cheetah {

// Where a result goes: a file, standard output for "-", nowhere for "". Tried before anything is measured, so that a
// wrong path costs no time; an older result stays until the new one is whole.
class JsonFile {
 public:
  explicit JsonFile(const std::string& path);
  void write(const Json& result);

 private:
  bool prints_;
  AtomicFile file_;
};

}  // namespace cheetah
