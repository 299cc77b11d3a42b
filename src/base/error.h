// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <stdexcept>
#include <string>

namespace cheetah {

// A place in our source. Not std::source_location, which the clang we fuzz with lacks.
class SourceLocation {
 public:
  static constexpr SourceLocation current(const char* file = __builtin_FILE(),
      uint32_t line = __builtin_LINE(), const char* function = __builtin_FUNCTION()) {
    return SourceLocation(file, line, function);
  }
  constexpr const char* file_name() const { return file_; }
  constexpr uint32_t line() const { return line_; }
  constexpr const char* function_name() const { return function_; }

 private:
  constexpr SourceLocation(const char* file, uint32_t line, const char* function)
      : file_(file), line_(line), function_(function) {}
  const char* file_;
  uint32_t line_;
  const char* function_;
};

// The world failed: a file, a config, a peer, a device. The message is one sentence that names what was
// wrong, what was expected and what to do. Only main and connection handlers catch it (exit code 1).
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message, SourceLocation at = SourceLocation::current())
      : std::runtime_error(message), at_(at) {}
  const SourceLocation& where() const { return at_; }

 private:
  SourceLocation at_;
};

// The command line or a config file has something unusable: a flag, a value (exit code 2).
class UsageError : public Error {
 public:
  // Not inherited: nvcc 13.0 fails on an inherited constructor with this default argument.
  explicit UsageError(const std::string& message, SourceLocation at = SourceLocation::current())
      : Error(message, at) {}
};

[[noreturn]] void assertion_failed(const char* condition, const char* why, SourceLocation at);

// Untrusted bytes as text for a message: control characters and bad UTF-8 escaped, cut at max_bytes.
std::string printable(std::string_view text, size_t max_bytes = 64);

}  // namespace cheetah

// A bug in Cheetah itself. On in release builds; aborts.
#define CHEETAH_ASSERT(condition, why) \
  ((condition) ? (void)0 : ::cheetah::assertion_failed(#condition, why, ::cheetah::SourceLocation::current()))
