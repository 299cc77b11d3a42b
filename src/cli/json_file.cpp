#include "cli/json_file.h"

#include "base/error.h"
#include "base/format.h"
#include "cli/output.h"

namespace cheetah {

JsonFile::JsonFile(const std::string& path) : path_(path) {
  if (path.empty() || path == "-") return;
  file_.open(path, std::ios::binary);
  if (!file_) throw Error(format("{}: cannot be written", path));
}

void JsonFile::write(const Json& result) {
  const std::string text = dump_json(result, 2) + "\n";
  if (path_ == "-") print(text);
  if (file_.is_open() && !(file_ << text).flush()) throw Error(format("{}: cannot write the result", path_));
}

}  // namespace cheetah
