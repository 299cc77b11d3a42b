// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "observe/histogram.h"

namespace cheetah {

// Builds Prometheus' text exposition format 0.0.4: one HELP and TYPE per family.
class PrometheusText {
 public:
  using Labels = std::vector<std::pair<std::string_view, std::string_view>>;

  // A family of one sample.
  void gauge(std::string_view name, std::string_view help, double value, const Labels& labels = {});
  void counter(std::string_view name, std::string_view help, double value, const Labels& labels = {});
  void histogram(std::string_view name, std::string_view help, const Histogram& values, const Labels& labels);

  // A family of several samples: its head, then each sample.
  void family(std::string_view name, std::string_view type, std::string_view help);
  void sample(double value, const Labels& labels = {}, std::string_view suffix = "");

  const std::string& text() const { return text_; }

 private:
  std::string name_;
  std::string text_;
};

}  // namespace cheetah
