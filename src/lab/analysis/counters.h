// SPDX-License-Identifier: MIT
#pragma once
// What is known about one kernel, whatever tool told it. Every number may be missing; rules say what they
// lack.
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "hw/ncu_csv.h"

namespace cheetah::analysis {

using Number = std::optional<double>;

// Percentages run from 0 to 100.
struct Counters {
  std::string name;
  std::map<std::string, double, std::less<>> values;  // by the names of counter_names()
  // Why warps did not issue, in percent of all warps that waited, by Nsight Compute's words
  // ("long_scoreboard").
  std::map<std::string, double, std::less<>> stalls;

  Number operator[](std::string_view counter) const;
  Number stall(std::string_view reason) const;  // nullopt when no stalls were collected
  // The most frequent reason, "" when none was collected. Not "not_selected", which only says that warps
  // abound.
  std::string top_stall() const;
};

struct CounterName {
  std::string_view name;     // as in our JSON
  std::string_view meaning;  // with its unit
  std::string_view collect;  // how Nsight Compute gathers it; "" when it does not
};
const std::vector<CounterName>& counter_names();

// Maps Nsight Compute's metrics and labels, derives what follows from several.
Counters counters_from_ncu(const KernelCounters& kernel);

// {"kernels": [{"name": "k", "counters": {"dram_pct": 90}, "stalls": {"long_scoreboard": 60}}]}: our own
// form. Throws Error naming `what` and the field for anything else, names that are not counters among it.
std::vector<Counters> counters_from_json(const Json& document, const std::string& what);

// Old and new words for the reasons of a stall: "stall_memory_dependency" -> "long_scoreboard".
std::string normal_stall(std::string_view reason);

}  // namespace cheetah::analysis
