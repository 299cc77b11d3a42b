// SPDX-License-Identifier: MIT
// strftime_now: the date and time as the C locale writes them, without the host's clock, zone or locale.
#include <chrono>

#include "base/format.h"
#include "model/template/builtins.h"

namespace cheetah::jinja {
namespace {

constexpr const char* kDays[] = {
    "Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"};
constexpr const char* kMonths[] = {"January", "February", "March", "April", "May", "June", "July", "August",
    "September", "October", "November", "December"};

struct Moment {
  int64_t epoch = 0;
  int year = 1970;
  unsigned month = 1, day = 1;
  int weekday = 4;  // Sunday is 0
  int day_of_year = 1;
  int hour = 0, minute = 0, second = 0;
};

Moment moment_of(int64_t now) {
  using namespace std::chrono;
  constexpr int64_t kLimit = int64_t{86400} * 365 * 8000;  // years four digits wide
  if (now > kLimit || now < -int64_t{86400} * 365 * 1900)
    fail("the time given to the template is out of range");
  const sys_seconds instant{seconds(now)};
  const sys_days days = floor<std::chrono::days>(instant);
  const year_month_day date(days);
  const auto clock = (instant - days).count();
  Moment moment;
  moment.epoch = now;
  moment.year = static_cast<int>(date.year());
  moment.month = static_cast<unsigned>(date.month());
  moment.day = static_cast<unsigned>(date.day());
  moment.weekday = static_cast<int>(weekday(days).c_encoding());
  moment.day_of_year = static_cast<int>((days - sys_days(date.year() / January / 1)).count()) + 1;
  moment.hour = static_cast<int>(clock / 3600);
  moment.minute = static_cast<int>(clock / 60 % 60);
  moment.second = static_cast<int>(clock % 60);
  return moment;
}

int hour12(const Moment& moment) { return moment.hour % 12 == 0 ? 12 : moment.hour % 12; }

// The year and week of ISO 8601: weeks start on Monday, the first has the year's first Thursday.
std::pair<int, int> iso_week(const Moment& moment) {
  const int weekday = (moment.weekday + 6) % 7;  // Monday is 0
  const auto days_in = [](int year) {
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0 ? 366 : 365;
  };
  const int week = (moment.day_of_year - 1 - weekday + 10) / 7;
  if (week < 1) {
    const int previous = moment.day_of_year + days_in(moment.year - 1);
    return {moment.year - 1, (previous - 1 - weekday + 10) / 7};
  }
  if (week == 53 && moment.day_of_year - weekday + 3 > days_in(moment.year)) return {moment.year + 1, 1};
  return {moment.year, week};
}

std::string number(int64_t value, int width, char fill, char flag) {
  if (flag == '-') return format("{}", value);
  if (flag == '_') fill = ' ';
  if (flag == '0') fill = '0';
  std::string digits = format("{}", value);
  if (static_cast<int>(digits.size()) < width)
    digits.insert(0, static_cast<size_t>(width) - digits.size(), fill);
  return digits;
}

std::string field(char code, char flag, const Moment& m) {
  const auto two = [&](int64_t value) { return number(value, 2, '0', flag); };
  switch (code) {
    case 'Y':
      return number(m.year, 1, '0', flag);
    case 'C':
      return two(m.year / 100);
    case 'y':
      return two(m.year % 100);
    case 'm':
      return two(m.month);
    case 'd':
      return two(m.day);
    case 'e':
      return number(m.day, 2, ' ', flag);
    case 'H':
      return two(m.hour);
    case 'I':
      return two(hour12(m));
    case 'k':
      return number(m.hour, 2, ' ', flag);
    case 'l':
      return number(hour12(m), 2, ' ', flag);
    case 'M':
      return two(m.minute);
    case 'S':
      return two(m.second);
    case 'f':
      return "000000";
    case 'j':
      return number(m.day_of_year, 3, '0', flag);
    case 'p':
      return m.hour < 12 ? "AM" : "PM";
    case 'P':
      return m.hour < 12 ? "am" : "pm";
    case 'A':
      return kDays[m.weekday];
    case 'a':
      return std::string(kDays[m.weekday], 3);
    case 'B':
      return kMonths[m.month - 1];
    case 'b':
    case 'h':
      return std::string(kMonths[m.month - 1], 3);
    case 'u':
      return format("{}", m.weekday == 0 ? 7 : m.weekday);
    case 'w':
      return format("{}", m.weekday);
    case 'U':
      return two((m.day_of_year + 6 - m.weekday) / 7);
    case 'W':
      return two((m.day_of_year + 6 - (m.weekday + 6) % 7) / 7);
    case 'V':
      return two(iso_week(m).second);
    case 'G':
      return format("{}", iso_week(m).first);
    case 'g':
      return two(iso_week(m).first % 100);
    case 's':
      return format("{}", m.epoch);
    case 'n':
      return "\n";
    case 't':
      return "\t";
    case '%':
      return "%";
    case 'z':
    case 'Z':
      return "";  // a time without a zone
    default:
      return {};
  }
}

const char* composite(char code) {
  switch (code) {
    case 'D':
    case 'x':
      return "%m/%d/%y";
    case 'F':
      return "%Y-%m-%d";
    case 'T':
    case 'X':
      return "%H:%M:%S";
    case 'R':
      return "%H:%M";
    case 'r':
      return "%I:%M:%S %p";
    case 'c':
      return "%a %b %e %H:%M:%S %Y";
    default:
      return nullptr;
  }
}

std::string expand(std::string_view pattern, const Moment& moment) {
  constexpr std::string_view kKnown = "YCymdeHIklMSfjpPAaBbhuwUWVGgsnt%zZ";
  std::string out;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%' || i + 1 >= pattern.size()) {
      out += pattern[i];
      continue;
    }
    const size_t start = i++;
    const char flag = pattern[i] == '-' || pattern[i] == '_' || pattern[i] == '0' ? pattern[i] : '\0';
    if (flag != '\0') ++i;
    const char code = i < pattern.size() ? pattern[i] : '\0';
    if (const char* whole = composite(code))
      out += expand(whole, moment);
    else if (code != '\0' && kKnown.find(code) != std::string_view::npos)
      out += field(code, flag, moment);
    else
      out += pattern.substr(start, i + 1 - start);
  }
  return out;
}

}  // namespace

std::string strftime(std::string_view pattern, int64_t now) { return expand(pattern, moment_of(now)); }

}  // namespace cheetah::jinja
