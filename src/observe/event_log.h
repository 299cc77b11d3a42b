// SPDX-License-Identifier: MIT
#pragma once
// Structured log lines, written by a thread of their own: a slow terminal or disk never slows a request.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "observe/log.h"

namespace cheetah {

enum class LogFormat { kJson, kText };

struct LogConfig {
  LogLevel level = LogLevel::kInfo;
  LogFormat format = LogFormat::kJson;
  int descriptor = 2;  // where lines go
};

// Any thread. Lines are dropped, and counted, when the writer cannot keep up.
class EventLog final : public LogSink {
 public:
  explicit EventLog(const LogConfig& config);
  ~EventLog() override;  // writes what is left

  bool wants(LogLevel level) const override;
  void write(LogLevel level, std::string_view event, const std::vector<LogField>& fields) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// One line without its end: control characters escaped, long values cut.
std::string render_log_line(LogFormat format, LogLevel level, std::string_view event,
    const std::vector<LogField>& fields, int64_t unix_ms);

}  // namespace cheetah
