#pragma once
#include <optional>
#include <string>

namespace cheetah {

// Lines of standard input. Unlike getline, a signal ends the wait, so that Ctrl-C at a prompt is seen.
class LineReader {
 public:
  enum class Event { kLine, kEnd, kInterrupted };
  // kLine: `line` has the next line without its newline. An unfinished last line counts as one.
  Event next(std::string& line);

 private:
  bool take_line(std::string& line);
  std::string buffer_;
  bool ended_ = false;
};

}  // namespace cheetah
