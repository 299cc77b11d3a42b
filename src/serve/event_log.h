#pragma once
// Structured log lines, written by a thread of their own: a slow terminal or disk never slows a request.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace cheetah {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };
enum class LogFormat { kJson, kText };

struct LogConfig {
  LogLevel level = LogLevel::kInfo;
  LogFormat format = LogFormat::kJson;
  int descriptor = 2;  // where lines go
};

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

// Any thread. Lines are dropped, and counted, when the writer cannot keep up.
class EventLog {
 public:
  explicit EventLog(const LogConfig& config);
  ~EventLog();  // writes what is left

  bool wants(LogLevel level) const;
  void write(LogLevel level, std::string_view event, const std::vector<LogField>& fields);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// One line without its end: control characters escaped, long values cut.
std::string render_log_line(LogFormat format, LogLevel level, std::string_view event,
                            const std::vector<LogField>& fields, int64_t unix_ms);

}  // namespace cheetah
