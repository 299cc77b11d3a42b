// SPDX-License-Identifier: MIT
#include "doctor/log/kernel_log.h"

#include <algorithm>
#include <cctype>
#include <map>

#include "base/error.h"
#include "base/format.h"
#include "base/text.h"

namespace cheetah::doctor {
namespace {

constexpr size_t kMaxKinds = 512, kMaxLine = 220;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// "<6>" of the raw log, "6,1234,99000000,-;" of /dev/kmsg, "[   99.012345] " of dmesg, "… kernel: " of journalctl.
LogLine parse_line(std::string_view line) {
  LogLine parsed;
  if (line.size() > 2 && line[0] == '<' && is_digit(line[1])) {
    const size_t close = line.find('>');
    if (const auto priority = close < 6 ? to_integer(line.substr(1, close - 1)) : std::nullopt) {
      parsed.level = static_cast<int>(*priority % 8);
      line.remove_prefix(close + 1);
    }
  }
  const size_t semicolon = line.find(';');
  if (!line.empty() && is_digit(line[0]) && semicolon != std::string_view::npos && semicolon < 64) {
    const auto parts = split(line.substr(0, semicolon), ',');
    const auto priority = parts.size() >= 3 ? to_integer(parts[0]) : std::nullopt;
    const auto micros = parts.size() >= 3 ? to_number(parts[2]) : std::nullopt;
    if (priority && micros) {
      parsed.level = static_cast<int>(*priority % 8);
      parsed.time_s = *micros / 1e6;
      line.remove_prefix(semicolon + 1);
    }
  }
  if (const size_t kernel = line.find(" kernel: "); kernel != std::string_view::npos && kernel < 80)
    line.remove_prefix(kernel + 9);
  line = trimmed(line);
  if (!line.empty() && line[0] == '[') {
    const size_t close = line.find(']');
    if (close != std::string_view::npos && close < 32) {
      if (const auto time = to_number(trimmed(line.substr(1, close - 1)))) parsed.time_s = *time;
      line.remove_prefix(close + 1);
    }
  }
  parsed.text = trimmed(line);
  return parsed;
}

bool begins_a_boot(std::string_view text) {
  return starts_with(text, "Linux version ") || starts_with(text, "Booting Linux on physical CPU") ||
         starts_with(text, "-- Boot ") || starts_with(text, "-- Reboot --");
}

// A server that answers again, and a driver that was loaded anew, end what was said of them before.
void forget_what_ended(std::string_view text, std::map<std::string, LogEvent>& kinds) {
  if (starts_with(text, "nfs: server ") && text.size() > 3 && text.substr(text.size() - 3) == " OK")
    std::erase_if(kinds, [&](const auto& kind) {
      return kind.second.subsystem == Subsystem::kStorage && contains(text, " " + kind.second.culprit + " ");
    });
  if (starts_with(text, "NVRM: loading NVIDIA UNIX"))
    std::erase_if(kinds, [](const auto& kind) { return kind.second.subsystem == Subsystem::kGpu; });
}

int weight(Gravity gravity) { return static_cast<int>(gravity); }

}  // namespace

std::vector<LogLine> parse_log(std::string_view log) {
  std::vector<LogLine> lines;
  for (const std::string_view raw : lines_of(log)) {
    const LogLine line = parse_line(raw);
    // Two marks of one boot follow each other; what stood before the first belongs to an earlier boot.
    if (begins_a_boot(line.text)) lines.clear();
    if (!line.text.empty()) lines.push_back(line);
  }
  return lines;
}

std::vector<LogEvent> log_events(std::string_view log) {
  std::map<std::string, LogEvent> kinds;
  for (const LogLine& line : parse_log(log)) {
    forget_what_ended(line.text, kinds);
    std::optional<LogEvent> event = event_of(line);
    if (!event) continue;
    const std::string key = event->culprit + "\n" + event->what;
    if (kinds.size() >= kMaxKinds && kinds.find(key) == kinds.end()) continue;
    LogEvent& kind = kinds[key];
    const double first = kind.count > 0 ? kind.first_s : line.time_s;
    const int count = kind.count + 1;
    kind = std::move(*event);
    kind.count = count;
    kind.first_s = first;
    kind.last_s = line.time_s;
    kind.line = printable(line.text, kMaxLine);
  }
  std::vector<LogEvent> events;
  for (auto& [key, event] : kinds) events.push_back(std::move(event));
  std::stable_sort(events.begin(), events.end(), [](const LogEvent& a, const LogEvent& b) {
    return weight(a.gravity) != weight(b.gravity) ? weight(a.gravity) > weight(b.gravity)
                                                  : a.last_s > b.last_s;
  });
  return events;
}

}  // namespace cheetah::doctor
