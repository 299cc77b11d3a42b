// SPDX-License-Identifier: MIT
#pragma once
// The outcome of `bench serve` as a table, as JSON and as a page.
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "load/sweep.h"

namespace cheetah {

// One run at one rate or concurrency.
struct LoadStep {
  std::optional<double> rate{};
  int64_t concurrency = 0;  // 0: no limit
  LoadSummary summary{};
  ClientFacts client{};
  std::vector<RequestRecord> records{};
};

struct LoadReport {
  Json provenance;  // when, with what, on what
  Json setup;       // server and load: what to know to repeat it, names to values
  Slo slo;
  std::vector<LoadStep> steps;  // one, or those of a sweep in ascending order
  bool is_sweep = false;

  std::optional<size_t> knee() const;  // of a sweep
};

std::string report_text(const LoadReport& report);
Json report_json(const LoadReport& report);
std::string report_html(const LoadReport& report);

}  // namespace cheetah
