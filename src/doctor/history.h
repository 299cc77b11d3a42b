// SPDX-License-Identifier: MIT
#pragma once
// What a machine counted over days, in a SQLite file: a rate is known only to those who looked before.
#include <memory>
#include <string>
#include <vector>

#include "doctor/facts/measured.h"
#include "doctor/facts/trend.h"
#include "doctor/report.h"

namespace cheetah::doctor {

// The error counters of one look: of links, memories, disks and GPUs, by name.
std::map<std::string, double> error_counters(const Facts& facts);

struct FindingChange {
  std::string check, found;
  bool is_new = true;  // false: it went away
};

class History {
 public:
  // Opens or makes the file. Throws Error naming it.
  explicit History(const std::string& path);
  ~History();
  History(const History&) = delete;
  History& operator=(const History&) = delete;

  // One look at `host`: its counters and what was wrong. Returns what changed since the look before.
  std::vector<FindingChange> add(const std::string& host, double time_s,
      const std::map<std::string, double>& counters, const Report& report);
  // What each counter added since `since_s`, resets left out, the fastest first.
  std::vector<Trend> trends(const std::string& host, double since_s) const;
  // Results of measurements: kept beside the counters; the median of each over all earlier looks.
  void add_measured(const std::string& host, double time_s, const MeasuredFacts& measured);
  std::map<std::string, double> usual(const std::string& host) const;
  void forget_before(double time_s);

 private:
  struct Database;
  std::unique_ptr<Database> database_;
};

}  // namespace cheetah::doctor
