// SPDX-License-Identifier: MIT
#pragma once
// What the kernel's log of this boot tells, and how long ago.
#include <vector>

#include "doctor/log/kernel_log.h"
#include "doctor/value.h"

namespace cheetah::doctor {

struct LogFacts {
  Value<std::vector<LogEvent>> events;
  double uptime_s = 0;   // 0: not known
  double newest_s = -1;  // the time of the log's newest line

  // Seconds since it last happened; -1 when the log or the uptime does not tell.
  double age_s(const LogEvent& event) const;
  // A fault that stays, one within a day of the log's end, or corrected errors by the dozen.
  bool is_trouble(const LogEvent& event) const;
};

LogFacts collect_log(const Source& source);

}  // namespace cheetah::doctor
