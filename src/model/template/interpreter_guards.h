// SPDX-License-Identifier: MIT
#pragma once
// Limits on recursion: of the C++ stack, and of macros and recursive loops.
#include "base/format.h"
#include "model/template/interpreter.h"

namespace cheetah::jinja {

class Interpreter::DepthGuard {
 public:
  explicit DepthGuard(Interpreter& interpreter) : interpreter_(interpreter) {
    if (++interpreter_.depth_ > kMaxDepth) {
      --interpreter_.depth_;
      fail("recursion limit exceeded: the template nests too deeply");
    }
  }
  ~DepthGuard() { --interpreter_.depth_; }

 private:
  // One level is a few hundred bytes of stack; the smallest stack we run on has 8 MiB.
  static constexpr int kMaxDepth = 3000;
  Interpreter& interpreter_;
};

class Interpreter::CallGuard {
 public:
  explicit CallGuard(Interpreter& interpreter) : interpreter_(interpreter) {
    const int limit = interpreter_.program_.limits.max_recursion;
    if (++interpreter_.calls_ > limit) {
      --interpreter_.calls_;
      fail(format("recursion limit exceeded: more than {} calls inside each other", limit));
    }
  }
  ~CallGuard() { --interpreter_.calls_; }

 private:
  Interpreter& interpreter_;
};

}  // namespace cheetah::jinja
