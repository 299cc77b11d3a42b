// SPDX-License-Identifier: MIT
#pragma once
// Prometheus' text format, read within limits. Unknown or broken lines are skipped: engines differ.
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace cheetah::doctor {

struct Series {
  std::map<std::string, std::string> labels;
  double value = 0;
};

class Metrics {
 public:
  static Metrics parse(std::string_view text);  // at most 100,000 series

  const std::vector<Series>* find(const std::string& name) const;
  bool empty() const { return series_.empty(); }
  size_t size() const { return series_.size(); }

 private:
  std::map<std::string, std::vector<Series>> series_;
};

}  // namespace cheetah::doctor
