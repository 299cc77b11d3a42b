// SPDX-License-Identifier: MIT
#pragma once
// An index written as a formula of the lane: "lane * 33", "(lane % 8) * 32 + lane / 8".
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace cheetah::analysis {

// Integer arithmetic as in C, with `lane` from 0 to 31: + - * / % & | ^ << >> ~ and brackets. Immutable.
class LanePattern {
 public:
  struct Node;

  // Throws Error that shows where the formula is wrong.
  static LanePattern parse(std::string_view formula);
  // Throws Error on division by zero, a shift out of range and overflow.
  int64_t at(int64_t lane) const;

 private:
  explicit LanePattern(std::shared_ptr<const Node> root) : root_(std::move(root)) {}
  std::shared_ptr<const Node> root_;  // shared by copies of the pattern, which never change it
};

}  // namespace cheetah::analysis
