// SPDX-License-Identifier: MIT
#include "observe/event_log.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "base/mailbox.h"
#include "base/names.h"

namespace cheetah {
namespace {

constexpr size_t kMaxValueBytes = 1024;
constexpr int64_t kMaxWaitingLines = 8192;
constexpr std::chrono::milliseconds kFullDiskPause{100};  // before it is tried again

constexpr auto kLevelNames = enum_names<LogLevel>({{LogLevel::kDebug, "debug"}, {LogLevel::kInfo, "info"},
    {LogLevel::kWarning, "warning"}, {LogLevel::kError, "error"}, {LogLevel::kOff, "off"}});

std::string timestamp(int64_t unix_ms) {
  const std::time_t seconds = unix_ms / 1000;
  std::tm utc = {};
  gmtime_r(&seconds, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc);
  return format("{}.{:03}Z", text, unix_ms % 1000);
}

std::string json_string(std::string_view text) {
  if (text.size() <= kMaxValueBytes) return dump_json(std::string(text));
  return dump_json(std::string(text.substr(0, kMaxValueBytes)) + "…");
}

std::string text_line(
    LogLevel level, std::string_view event, const std::vector<LogField>& fields, const std::string& time) {
  std::string line = format("{} {:<7} {}", time, kLevelNames[level], event);
  for (const LogField& field : fields) {
    const std::string value = json_string(field.value);
    const bool plain = !field.value.empty() && value.size() == field.value.size() + 2 &&
                       field.value.find_first_of(" =") == std::string::npos;
    line += format(" {}={}", field.name, plain ? field.value : value);
  }
  return line;
}

// Returns what there is no space for at present.
std::string_view write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(descriptor, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == ENOSPC || errno == EDQUOT)) return text;
    if (count <= 0) return {};  // nobody reads the log: serving goes on
    text.remove_prefix(static_cast<size_t>(count));
  }
  return {};
}

}  // namespace

std::string render_log_line(LogFormat style, LogLevel level, std::string_view event,
    const std::vector<LogField>& fields, int64_t unix_ms) {
  const std::string time = timestamp(unix_ms);
  if (style == LogFormat::kText) return text_line(level, event, fields, time);
  std::string line =
      format("{{\"ts\":\"{}\",\"level\":\"{}\",\"event\":{}", time, kLevelNames[level], json_string(event));
  for (const LogField& field : fields)
    line += format(",\"{}\":{}", field.name, field.is_number ? field.value : json_string(field.value));
  return line + "}";
}

struct EventLog::State {
  explicit State(const LogConfig& how) : config(how), thread([this] { loop(); }) {}
  ~State() {
    box.close();
    thread.join();
  }

  void loop() {
    std::vector<std::string> lines;
    std::string text;       // not written yet: the disk is full
    int64_t unwritten = 0;  // lines in it
    for (bool open = true; open;) {
      if (text.empty())
        box.wait();
      else
        box.wait_until(std::chrono::steady_clock::now() + kFullDiskPause);
      open = !box.closed();
      box.take_all(lines);
      for (const std::string& line : lines) text += line;
      unwritten += std::ssize(lines);
      text = std::string(write_all(config.descriptor, text));
      if (text.empty()) waiting -= std::exchange(unwritten, 0);
    }
  }

  LogConfig config;
  Mailbox<std::string> box;
  std::atomic<int64_t> waiting = 0;
  std::atomic<int64_t> dropped = 0;
  std::thread thread;  // last: everything above is ready when it starts
};

EventLog::EventLog(const LogConfig& config) : state_(std::make_unique<State>(config)) {}
EventLog::~EventLog() = default;

bool EventLog::wants(LogLevel level) const {
  return level >= state_->config.level && level != LogLevel::kOff;
}

void EventLog::write(LogLevel level, std::string_view event, const std::vector<LogField>& fields) {
  if (!wants(level)) return;
  if (++state_->waiting > kMaxWaitingLines) {
    --state_->waiting;
    ++state_->dropped;
    return;
  }
  const int64_t now = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::system_clock::now().time_since_epoch())
                          .count();
  std::vector<LogField> all = fields;
  if (const int64_t lost = state_->dropped.exchange(0)) all.push_back({"lines_dropped_before", lost});
  state_->box.post(render_log_line(state_->config.format, level, event, all, now) + "\n");
}

}  // namespace cheetah
