// SPDX-License-Identifier: MIT
#pragma once
// Where a component reports an event. The engine and everything above it get a LogSink as an argument.
#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

namespace cheetah {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };

// A name and a value; the value is text or already a JSON number.
struct LogField {
  LogField(std::string_view field_name, std::string_view text) : name(field_name), value(text) {}
  LogField(std::string_view field_name, const char* text) : name(field_name), value(text) {}
  LogField(std::string_view field_name, const std::string& text) : name(field_name), value(text) {}
  LogField(std::string_view field_name, int64_t number);
  LogField(std::string_view field_name, int number) : LogField(field_name, int64_t{number}) {}
  LogField(std::string_view field_name, double number);

  std::string name;
  std::string value;
  bool is_number = false;
};

// Any thread may write. Writing never blocks on a disk or a terminal and never throws.
class LogSink {
 public:
  virtual ~LogSink() = default;
  virtual bool wants(LogLevel level) const = 0;
  virtual void write(LogLevel level, std::string_view event, const std::vector<LogField>& fields) = 0;
};

// For a component that runs without a log.
class SilentLog final : public LogSink {
 public:
  bool wants(LogLevel) const override { return false; }
  void write(LogLevel, std::string_view, const std::vector<LogField>&) override {}
};

// "why" and, where an Error says it, "where": the source line that threw.
std::vector<LogField> failure_fields(const std::exception& failure);

}  // namespace cheetah
