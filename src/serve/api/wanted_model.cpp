// SPDX-License-Identifier: MIT
#include "serve/api/wanted_model.h"

#include <array>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "base/json.h"

namespace cheetah {
namespace {

// Keeps nothing but three fields of the outermost object.
class FieldReader : public nlohmann::json_sax<Json> {
 public:
  explicit FieldReader(WantedModel& wanted) : wanted_(wanted) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t value) override { return number(static_cast<double>(value)); }
  bool number_unsigned(number_unsigned_t value) override { return number(static_cast<double>(value)); }
  bool number_float(number_float_t value, const string_t&) override { return number(value); }
  bool string(string_t& value) override {
    if (depth_ != 1) return true;
    if (key_ == "model" || (key_ == "name" && wanted_.name.empty())) wanted_.name = value;
    if (key_ == "keep_alive") wanted_.keep_alive_s = go_duration_s(value);
    return true;
  }
  bool binary(binary_t&) override { return true; }
  bool start_object(size_t) override { return enter(); }
  bool end_object() override { return leave(); }
  bool start_array(size_t) override { return enter(); }
  bool end_array() override { return leave(); }
  bool key(string_t& value) override {
    if (depth_ == 1) key_ = value;
    return true;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::json::exception&) override { return false; }

 private:
  static constexpr int kDeepest = 64;  // as bodies are read; beyond it they are refused
  bool enter() { return ++depth_ <= kDeepest; }
  bool leave() {
    --depth_;
    return true;
  }
  bool number(double value) {
    if (depth_ == 1 && key_ == "keep_alive") wanted_.keep_alive_s = value;
    return true;
  }

  WantedModel& wanted_;
  int depth_ = 0;
  std::string key_;
};

double unit_s(std::string_view unit) {
  constexpr std::array<std::pair<std::string_view, double>, 7> kUnits = {
      {{"", 1}, {"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}, {"m", 60}, {"h", 3600}}};
  for (const auto& [name, seconds] : kUnits)
    if (name == unit) return seconds;
  return NAN;
}

}  // namespace

WantedModel wanted_model(std::string_view body) {
  WantedModel wanted;
  FieldReader reader(wanted);
  if (!Json::sax_parse(body, &reader)) return {};
  return wanted;
}

std::optional<double> go_duration_s(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  if (text.empty()) return std::nullopt;
  double total = 0;
  while (!text.empty()) {
    const size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
    const size_t end = std::min(text.find_first_of("0123456789.", digits), text.size());
    const std::string number(text.substr(0, digits));
    char* rest = nullptr;
    const double part = std::strtod(number.c_str(), &rest) * unit_s(text.substr(digits, end - digits));
    if (number.empty() || *rest != '\0' || !std::isfinite(part)) return std::nullopt;
    total += part;
    text.remove_prefix(end);
  }
  return negative ? -total : total;
}

}  // namespace cheetah
