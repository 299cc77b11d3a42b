// SPDX-License-Identifier: MIT
#include "doctor/facts/log.h"

#include <algorithm>

#include "doctor/text.h"

namespace cheetah::doctor {
namespace {

constexpr int64_t kMaxLogBytes = int64_t{8} << 20;
constexpr double kHour = 3600, kRecent = 24 * kHour;
constexpr int kManyCorrected = 20;
constexpr double kCorrectedPerHour = 10;

}  // namespace

double LogFacts::age_s(const LogEvent& event) const {
  if (event.last_s < 0 || uptime_s <= 0) return -1;
  return std::max(0.0, uptime_s - event.last_s);
}

bool LogFacts::is_trouble(const LogEvent& event) const {
  if (event.gravity == Gravity::kNote) return false;
  if (event.gravity == Gravity::kLasting) return true;
  if (event.last_s >= 0 && newest_s - event.last_s > kRecent) return false;
  if (event.gravity == Gravity::kPassing) return true;
  const double hours = event.first_s < 0 ? 1 : std::max(1.0, (event.last_s - event.first_s) / kHour);
  return event.count >= kManyCorrected && event.count / hours >= kCorrectedPerHour;
}

LogFacts collect_log(const Source& source) {
  LogFacts facts;
  const Text log = source.read("cheetah/dmesg", kMaxLogBytes);
  facts.events = log.ok() ? Value<std::vector<LogEvent>>(log_events(log.text), log.path)
                          : Value<std::vector<LogEvent>>::absent(log);
  if (log.ok())
    for (const LogLine& line : parse_log(log.text)) facts.newest_s = std::max(facts.newest_s, line.time_s);
  const Text uptime = source.read("proc/uptime", 4096);
  const auto words = words_of(uptime.text);
  facts.uptime_s = words.empty() ? 0 : to_number(words[0]).value_or(0);
  return facts;
}

}  // namespace cheetah::doctor
