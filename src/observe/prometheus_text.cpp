// SPDX-License-Identifier: MIT
#include "observe/prometheus_text.h"

#include <cmath>

#include "base/format.h"

namespace cheetah {
namespace {

std::string number(double value) {
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return format("{}", value);
}

std::string escaped(std::string_view value) {
  std::string out;
  for (const char c : value) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n')
      out += "\\n";
    else
      out += c;
  }
  return out;
}

}  // namespace

void PrometheusText::gauge(std::string_view name, std::string_view help, double value, const Labels& labels) {
  family(name, "gauge", help);
  sample(value, labels);
}

void PrometheusText::counter(
    std::string_view name, std::string_view help, double value, const Labels& labels) {
  family(name, "counter", help);
  sample(value, labels);
}

void PrometheusText::family(std::string_view name, std::string_view type, std::string_view help) {
  name_ = name;
  text_ += format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

void PrometheusText::sample(double value, const Labels& labels, std::string_view suffix) {
  text_ += name_;
  text_ += suffix;
  std::string inside;
  for (const auto& [label, text] : labels)
    inside += format("{}{}=\"{}\"", inside.empty() ? "" : ",", label, escaped(text));
  if (!inside.empty()) text_ += "{" + inside + "}";
  text_ += format(" {}\n", number(value));
}

void PrometheusText::histogram(
    std::string_view name, std::string_view help, const Histogram& values, const Labels& labels) {
  family(name, "histogram", help);
  uint64_t below = 0;
  for (size_t i = 0; i < values.counts.size(); ++i) {
    below += values.counts[i];
    const std::string bound = number(i < values.bounds.size() ? values.bounds[i] : INFINITY);
    Labels all = labels;
    all.push_back({"le", bound});
    sample(static_cast<double>(below), all, "_bucket");
  }
  sample(values.sum, labels, "_sum");
  sample(static_cast<double>(values.count), labels, "_count");
}

}  // namespace cheetah
