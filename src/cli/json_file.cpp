// SPDX-License-Identifier: MIT
#include "cli/json_file.h"

#include "cli/output.h"

namespace cheetah {

JsonFile::JsonFile(const std::string& path) : prints_(path == "-"), file_(prints_ ? "" : path) {}

void JsonFile::write(const Json& result) {
  const std::string text = dump_json(result, 2) + "\n";
  if (prints_) print(text);
  file_.write(text);
}

}  // namespace cheetah
