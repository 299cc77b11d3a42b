// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace cheetah {

// Finds the first of several stop strings in growing text, wherever the pieces are cut, and holds back what
// may still become one. One thread.
class StopMatcher {
 public:
  // include: the stop string itself belongs to the text.
  StopMatcher(std::vector<std::string> stops, bool include);

  std::string push(std::string_view piece);  // what can be shown now
  std::string finish();                      // what was held back, when no stop came

  bool stopped() const { return stopped_; }
  const std::string& matched() const { return matched_; }  // the stop string, once stopped

 private:
  size_t held_length() const;

  std::vector<std::string> stops_;  // none empty
  bool include_;
  std::string held_;
  std::string matched_;
  bool stopped_ = false;
};

}  // namespace cheetah
