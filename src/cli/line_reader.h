// SPDX-License-Identifier: MIT
#pragma once
#include <string>

namespace cheetah {

// Lines of standard input, limited in length.
class LineReader {
 public:
  // The next line without its newline; an unfinished last line counts as one. False at the end.
  bool next(std::string& line);

 private:
  bool take_line(std::string& line);
  std::string buffer_;
  bool ended_ = false;
};

}  // namespace cheetah
