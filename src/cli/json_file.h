#pragma once
#include <fstream>
#include <string>

#include "base/json.h"

namespace cheetah {

// Where a result goes: a file, standard output for "-", nowhere for "". Opened before anything is measured,
// so that a wrong path costs no time.
class JsonFile {
 public:
  explicit JsonFile(const std::string& path);
  void write(const Json& result);

 private:
  std::string path_;
  std::ofstream file_;
};

}  // namespace cheetah
