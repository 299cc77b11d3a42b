// SPDX-License-Identifier: MIT
#pragma once
#include <fstream>
#include <string>

#include "quantize/evaluation.h"

namespace cheetah {

// An evaluation's progress in a file, a line per unit, so that an interrupted one goes on where it stopped.
// The first line tells what is evaluated; a file of another evaluation is refused.
class EvalState {
 public:
  EvalState() = default;  // keeps nothing
  // Reads what is there. A last line that was cut off in the middle is dropped. Throws Error.
  EvalState(const std::string& path, const Json& key);

  const EvaluationScores& scores() const { return scores_; }
  void add(const WindowScore& window);
  void add(const QuestionScore& question);

 private:
  void read_line(const std::string& text, const std::string& where);
  void write(const Json& line);
  std::string path_;
  std::ofstream file_;
  EvaluationScores scores_;
};

}  // namespace cheetah
