// SPDX-License-Identifier: MIT
#pragma once
// How the interpreter gives up, and what it may spend before it does.
#include <cstdint>
#include <stdexcept>
#include <string>

namespace cheetah::jinja {

// An error of the template or its data. The renderer adds the template's name and line and throws Error.
class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

[[noreturn]] inline void fail(const std::string& message) { throw Failure(message); }

// What one rendering may still use. Every statement and expression is a step; every byte of text made or
// read through, and every element of a list made, is charged, so that no template can hold more memory or
// time than its limits.
class Budget {
 public:
  Budget(int64_t max_steps, int64_t max_bytes) : steps_left_(max_steps), bytes_left_(max_bytes) {}

  void step(int64_t count = 1) {
    steps_left_ -= count;
    if (steps_left_ < 0) fail("step limit exceeded: the template does too much work");
  }
  void bytes(int64_t count) {
    if (count < 0 || count > bytes_left_) fail("memory limit exceeded: the template makes too much data");
    bytes_left_ -= count;
  }
  void items(int64_t count) {
    if (count < 0 || count > bytes_left_ / kItemBytes)
      fail("memory limit exceeded: the template makes too long a list");
    bytes(count * kItemBytes);
  }

 private:
  static constexpr int64_t kItemBytes = 64;  // a value, its share of the container and the work on it
  int64_t steps_left_;
  int64_t bytes_left_;
};

}  // namespace cheetah::jinja
