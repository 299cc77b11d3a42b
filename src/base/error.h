#pragma once
#include <source_location>
#include <stdexcept>
#include <string>

namespace cheetah {

// The world failed: a file, a config, a peer, a device. The message is one sentence that names what was
// wrong, what was expected and what to do. Only main and connection handlers catch it (exit code 1).
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message, std::source_location at = std::source_location::current())
      : std::runtime_error(message), at_(at) {}
  const std::source_location& where() const { return at_; }

 private:
  std::source_location at_;
};

// The person typed something we cannot use: a flag, a value (exit code 2).
class UsageError : public Error {
 public:
  using Error::Error;
};

[[noreturn]] void assertion_failed(const char* condition, const char* why, std::source_location at);

// Bytes from outside made fit for a message: control characters and bad UTF-8 escaped, cut at max_bytes.
std::string printable(std::string_view text, size_t max_bytes = 64);

}  // namespace cheetah

// A bug in Cheetah itself. On in release builds; aborts.
#define CHEETAH_ASSERT(condition, why) \
  ((condition) ? (void)0 : ::cheetah::assertion_failed(#condition, why, std::source_location::current()))
